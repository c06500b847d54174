"""The start-up check reports guardrails that do not work with the installed libraries."""

from __future__ import annotations

import inspect
from typing import Any

import jsonschema_rs
import pytest

from forge_proxy.core.errors import GuardrailsBroken
from forge_proxy.core.guardrails.schema import compiled as schema_module
from forge_proxy.core.guardrails.self_check import check_guardrails


@pytest.fixture(autouse=True)
def _nothing_is_compiled_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema_module, "_cached", inspect.unwrap(vars(schema_module)["_cached"]))


def test_the_installed_libraries_pass() -> None:
    check_guardrails()


def test_a_library_without_a_required_option_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def validator_for(schema: object, **options: object) -> None:
        raise TypeError("validator_for() got an unexpected keyword argument 'offline'")

    monkeypatch.setattr(jsonschema_rs, "validator_for", validator_for)

    with pytest.raises(GuardrailsBroken, match="offline") as raised:
        check_guardrails()
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("answer", [True, False])
def test_a_library_that_validates_nothing_is_reported(answer: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    class Same:
        def is_valid(self, instance: object) -> bool:
            return answer

        def validate(self, instance: object) -> None: ...

        def iter_errors(self, instance: object) -> list[Any]:
            return []

    def validator_for(schema: object, **options: object) -> Same:
        return Same()

    monkeypatch.setattr(jsonschema_rs, "validator_for", validator_for)

    with pytest.raises(GuardrailsBroken):
        check_guardrails()
