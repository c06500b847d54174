"""The generated tasks in new interpreters: the same runs in each, and loaded only if they are selected."""

from __future__ import annotations

import subprocess
import sys

from forge_proxy.evals.scenarios import select_scenarios


def test_runs_are_the_same_in_every_process() -> None:
    (scenario,) = select_scenarios(["generated_chain"])
    load = f"from forge_proxy.evals.scenarios import select_scenarios; (one,) = select_scenarios(['{scenario.name}'])"
    code = f"{load}; print(one.build(3).ideal)"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()

    assert shown == str(scenario.build(3).ideal)


def test_other_scenarios_do_not_load_them() -> None:
    load = "import sys; from forge_proxy.evals.scenarios import select_scenarios; select_scenarios(tags=['quick'])"
    code = f"{load}; print([name for name in sys.modules if 'generated' in name])"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()

    assert shown == "[]"
