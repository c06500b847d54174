"""mini-swe-agent with its own prompts, in the folder it is started in."""

import sys
from pathlib import Path

import yaml
from minisweagent import package_dir
from minisweagent.agents.default import DefaultAgent
from minisweagent.environments.local import LocalEnvironment
from minisweagent.models.litellm_model import LitellmModel

_, base_url, prompt = sys.argv[1:]
settings = yaml.safe_load(Path(package_dir, "config", "mini.yaml").read_text())
prompts = {name: settings["agent"][name] for name in ("system_template", "instance_template")}
model = LitellmModel(
    model_name="openai/scripted",
    cost_tracking="ignore_errors",
    **settings["model"] | {"model_kwargs": {"api_base": base_url, "api_key": "none"}},
)
print(DefaultAgent(model, LocalEnvironment(), **prompts, step_limit=20).run(prompt))
