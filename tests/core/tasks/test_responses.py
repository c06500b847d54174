"""Both forms of a response are parsed into the same value."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema_rs import validator_for

from forge_proxy.core.tasks.models import LLMResponse, Plan
from forge_proxy.core.tasks.responses import ResponseInvalid, parse_blocks, parse_files, parse_json
from forge_proxy.core.tasks.schemas import files_schema, plan_schema

BLOCKS = """\
The cart counts items now.

### file src/new.py
```python
x = 1
```

#### edit `src/old.py`
````search
```
a
```
````
````replace
b
````
```search
c
```
```replace
```
"""
JSON = {
    "explanation": "The cart counts items now.",
    "files": [{"path": "src/new.py", "content": "x = 1\n"}],
    "edits": [
        {
            "path": "src/old.py",
            "edits": [{"search": "```\na\n```\n", "replace": "b\n"}, {"search": "c\n", "replace": ""}],
        }
    ],
}


def test_s_answer_both_forms_are_the_same_value() -> None:
    assert parse_files(BLOCKS, "blocks") == parse_files(json.dumps(JSON), "json")
    assert parse_files(f"```json\n{json.dumps(JSON)}\n```", "json") == LLMResponse.model_validate(JSON)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "$: the response is empty"),
        ("Sure!", "$: not JSON"),
        ("{} and more", "$: text follows"),
        ('{"explanation": "x"', "$: not JSON"),
        ("[]", "$: expected an object"),
        ('{"files": []}', "$.explanation: required, but missing"),
        ('{"explanation": "", "files": [{"path": "a"}]}', "$.files[0].content: required, but missing"),
        ('{"explanation": "", "edits": [{"path": "a", "edits": [{"search": 1, "replace": ""}]}]}',
         "$.edits[0].edits[0].search: expected a string"),
    ],
)  # fmt: skip
def test_s_errors_an_invalid_response_is_reported_with_its_json_path(text: str, fault: str) -> None:
    with pytest.raises(ResponseInvalid) as caught:
        parse_files(text, "json")

    assert str(caught.value).startswith(fault)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("### file a\n```\nx\n", "line 2: the block has no end"),
        ("### file a\n", "line 1: expected one block with the content of the file, found 0"),
        ("### edit a\n```search\nx\n```\n", "line 1: expected pairs"),
        ("### edit a\n```\nx\n```\n", "line 1: expected pairs"),
        ("### file a.md\n```\n# A\n```\nshell\n```\n", "line 5: text outside of a block"),
    ],
)
def test_s_errors_an_invalid_block_is_reported_with_its_line(text: str, fault: str) -> None:
    with pytest.raises(ResponseInvalid) as caught:
        parse_blocks(text)

    assert str(caught.value).startswith(fault)


def fenced(text: str, label: str = "") -> str:
    return f"``````{label}\n{text}``````\n"


CONTENT = st.lists(st.text("ab `#\t", max_size=8), max_size=5).map(lambda some: "".join(f"{line}\n" for line in some))


@given(st.text("ab \n", max_size=20), CONTENT, CONTENT, CONTENT)
def test_blocks_with_a_longer_fence_carry_any_content(explanation: str, new: str, search: str, replace: str) -> None:
    text = f"{explanation}\n### file a.md\n{fenced(new)}### edit b.md\n{fenced(search, 'search')}"
    text += fenced(replace, "replace")

    parsed = parse_blocks(text)

    assert parsed.files[0].content == new
    assert (parsed.edits[0].edits[0].search, parsed.edits[0].edits[0].replace) == (search, replace)


def is_valid(schema: Any, value: Any) -> bool:
    return validator_for(schema).is_valid(value)


def respond(**fields: Any) -> dict[str, Any]:
    return {"explanation": "", "files": [], "edits": [], **fields}


def test_s_answer_the_schema_permits_only_paths_of_the_scope() -> None:
    schema = files_schema(["a.py", "b.py"], ["a.py"])
    edit = {"path": "a.py", "edits": [{"search": "x", "replace": "y"}]}

    assert is_valid(schema, respond(edits=[edit]))
    assert is_valid(schema, respond(files=[{"path": "b.py", "content": ""}]))
    assert not is_valid(schema, respond(files=[{"path": "c.py", "content": ""}]))
    assert not is_valid(schema, respond(edits=[{**edit, "path": "b.py"}]))  # there is nothing to edit yet
    assert not is_valid(schema, respond(edits=[{"path": "a.py", "edits": []}]))


def test_s_answer_the_schema_permits_no_empty_response_and_no_other_fields() -> None:
    schema = files_schema(["a.py"], ["a.py"])

    assert not is_valid(schema, respond())
    assert not is_valid(schema, {"explanation": ""})
    assert not is_valid(schema, respond(files=[{"path": "a.py", "content": ""}], more=1))


def test_a_scope_without_existing_files_has_no_edits() -> None:
    schema = files_schema(["a.py"], [])

    assert is_valid(schema, respond(files=[{"path": "a.py", "content": ""}]))
    assert not is_valid(schema, respond(edits=[{"path": "a.py", "edits": [{"search": "x", "replace": "y"}]}]))


@pytest.mark.parametrize("depth", [0, 1, 2])
def test_d17_the_schema_of_plans_is_as_deep_as_the_budget(depth: int) -> None:
    def part(left: int) -> dict[str, Any]:
        fields: dict[str, Any] = {"id": "a", "description": "d", "target_files": ["f"], "context_files": []}
        return {**fields, "sub_tasks": [part(left - 1)]} if left else fields

    def plan(nested: int) -> dict[str, Any]:
        budget = {"max_fan_out_depth": depth} if depth > 1 else {}
        return {"explanation": "", "steps": [{**part(nested), "capability_tier": "generation", **budget}]}

    schema = plan_schema(depth)

    assert is_valid(schema, plan(depth))
    assert not is_valid(schema, plan(depth + 1))
    assert parse_json(json.dumps(plan(depth)), Plan).steps[0].id == "a"
