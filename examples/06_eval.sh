#!/bin/sh
# The effect of the guardrails on a model: two scenarios, with and without guardrails, compared in pairs.
# For a model of yours: EVAL_MODEL="--gguf model.gguf" sh examples/06_eval.sh; then raise RUNS to 50.
set -eu
results=$(mktemp -d)
trap 'rm -r "$results"' EXIT

# shellcheck disable=SC2086  # several options
forge-proxy eval run ${EVAL_MODEL:---backend embedded} --runs "${RUNS:-3}" --temperature 1 \
  --scenario quick_two_step --scenario quick_required_steps \
  --ablation reforged --ablation bare --out "$results/evals.jsonl"
forge-proxy eval compare bare reforged "$results/evals.jsonl"
