"""The prompts of tasks: eleven sections in their order, equal bytes for equal inputs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from forge_proxy.core.tasks.findings import Finding
from forge_proxy.core.tasks.models import Plan, PlanStep, TaskDefinition
from forge_proxy.core.tasks.prompt.assemble import PromptInputs, assemble_prompt, estimate_tokens
from forge_proxy.core.tasks.prompt.error_section import MAX_CHARACTERS, render_errors
from forge_proxy.core.tasks.prompt.sections import SHARED_ORDER, STABLE_ORDER, SectionName, render_file, render_sections
from forge_proxy.core.tasks.prompt.source_context import render_source_context
from forge_proxy.core.tasks.scopes import WriteScope

TASK = TaskDefinition(description="Add a total to the cart.", target_files=("cart.py",))
INPUTS = PromptInputs(
    "generate",
    TASK,
    WriteScope(("cart.py",)),
    instructions={"AGENTS.md": "Use types."},
    targets={"cart.py": "class Cart:\n    pass\n", "new.py": None},
    context={"item.py": "class Item: ...\n"},
    findings=[Finding("lint", "unused import", "cart.py", 1, 1, "F401")],
    failed={"cart.py": "import os\n"},
)


def test_s_context_the_sections_are_the_eleven_in_their_order() -> None:
    texts: dict[SectionName, str] = {name: f"text of {name}" for name in STABLE_ORDER}

    text = render_sections(texts)

    assert len(STABLE_ORDER) == 11
    places = [text.index(f"text of {name}") for name in STABLE_ORDER]
    assert places == sorted(places)


def test_s_context_what_differs_between_attempts_is_at_the_end() -> None:
    first, retry = assemble_prompt(replace(INPUTS, findings=())), assemble_prompt(INPUTS)

    assert retry.system_prompt.startswith(first.system_prompt)
    assert retry.sections == (*first.sections, "previous_errors")
    assert "cart.py:1:1: F401 unused import" in retry.system_prompt
    assert "    1 import os  # <-- ERROR" in retry.system_prompt


def test_s_context_equal_inputs_give_equal_bytes() -> None:
    assert assemble_prompt(INPUTS) == assemble_prompt(replace(INPUTS))


def test_s_context_a_single_step_has_the_sections_of_this_version() -> None:
    assert assemble_prompt(INPUTS).sections == (
        "role",
        "output_requirements",
        "project_instructions",
        "task",
        "target_files",
        "direct_dependencies",
        "previous_errors",
    )


def test_the_shared_order_begins_with_what_all_operations_have_in_common() -> None:
    generate = assemble_prompt(replace(INPUTS, order="shared")).system_prompt
    plan = assemble_prompt(replace(INPUTS, order="shared", operation="plan")).system_prompt

    common = next(at for at, (one, two) in enumerate(zip(generate, plan, strict=False)) if one != two)

    assert generate[:common].startswith("## Project instructions\n\nFrom AGENTS.md:\n\nUse types.\n\nYou are a ")
    assert sorted(SHARED_ORDER) == sorted(STABLE_ORDER)


@pytest.mark.parametrize(
    ("domain", "start"),
    [
        ("code_generation", "Generate the requested code changes. Use `edits` for existing files and `files` for new"),
        ("research", "Write the requested findings."),
        ("code_review", "Write the requested review."),
        ("documentation", "Write the requested documentation."),
        ("generic", "Make the requested changes."),
    ],
)
def test_s_context_the_user_prompt_depends_on_the_domain(domain: str, start: str) -> None:
    task = TASK.model_copy(update={"domain": domain})

    assert assemble_prompt(replace(INPUTS, task=task)).user_prompt.startswith(start)


def test_s_context_a_planned_step_is_named_in_both_prompts() -> None:
    step = PlanStep(id="totals", description="Sum the prices.", target_files=("cart.py",))
    plan = Plan(explanation="", steps=(step,))

    context = assemble_prompt(replace(INPUTS, plan=plan, part=step))

    assert "1. totals: Sum the prices." in context.system_prompt
    assert context.user_prompt.endswith("totals: Sum the prices.")


def test_d33_tokens_are_estimated_at_four_characters() -> None:
    assert [estimate_tokens(text) for text in ("", "a", "abcd", "abcde")] == [0, 1, 1, 2]


def test_a_file_with_fences_gets_a_longer_one() -> None:
    assert render_file("a.md", "```\nx\n```\n") == "### a.md\n\n````\n```\nx\n```\n````"


SOURCE = """\
import os


class Cart:
    @property
    def total(self):
        return os.total

    def clear(self):
        pass
"""


def test_s_errors_a_finding_is_shown_in_the_function_around_it() -> None:
    assert render_source_context(SOURCE, 7) == (
        "    5     @property\n    6     def total(self):\n    7         return os.total  # <-- ERROR"
    )


def test_s_errors_outside_of_functions_the_lines_around_are_shown() -> None:
    assert render_source_context(SOURCE, 1) == "    1 import os  # <-- ERROR\n    2\n    3\n    4 class Cart:"
    assert render_source_context("x = (\n", 1) == "    1 x = (  # <-- ERROR"
    assert render_source_context(SOURCE, 99) is None


def test_s_errors_of_a_long_function_the_header_and_the_lines_around_are_shown() -> None:
    source = "def f():\n" + "".join(f"    x{number} = {number}\n" for number in range(200))

    lines = (render_source_context(source, 150) or "").split("\n")

    assert lines[:2] == ["    1 def f():", "      ..."]
    assert "  150     x148 = 148  # <-- ERROR" in lines
    assert len(lines) <= 42


def test_s_errors_the_section_is_bounded() -> None:
    findings = [Finding("tests", "x" * 1000, "a.py", number) for number in range(100)]

    text = render_errors(findings, {})

    assert len(text) < MAX_CHARACTERS + 100
    assert text.endswith("more findings are not shown.)")
