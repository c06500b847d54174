"""Which guardrails are enabled, by the configuration and by the header of a request."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from forge_proxy.core.errors import InvalidRequest
from forge_proxy.core.guardrails.policy import SWITCHES, GuardPolicy, Switches, read_switches


def on(switches: Switches) -> list[str]:
    return [name for name, is_on in switches.model_dump(by_alias=True).items() if is_on]


@pytest.mark.parametrize("said", [None, "", " ", ",", "on", "ON", " on "])
def test_no_header_and_on_keep_the_switches(said: str | None) -> None:
    switches = Switches(rescue=False)

    assert read_switches(said, switches) == switches


@pytest.mark.parametrize(
    ("said", "left"),
    [
        ("off", []),
        ("Off", []),
        ("rescue", ["rescue"]),
        ("rescue,retry", ["rescue", "retry"]),
        (" validate , Respond,", ["respond", "validate"]),
        ("respond,rescue,validate,retry,loops,repeats,early_end", list(SWITCHES)),
    ],
)
def test_a_list_enables_only_the_named_guardrails(said: str, left: list[str]) -> None:
    assert on(read_switches(said, Switches())) == left


def test_a_guardrail_disabled_by_the_daemon_stays_disabled() -> None:
    assert on(read_switches("rescue,retry", Switches(rescue=False))) == ["retry"]


@pytest.mark.parametrize(
    ("said", "name"),
    [
        ("rescu", "rescu"),
        ("rescue,off", "off"),
        ("on,off", "on"),
        ("validate_calls", "validate_calls"),
        ("rescue=of", "rescue=of"),
    ],
)
def test_an_unknown_name_is_rejected_with_the_known_ones(said: str, name: str) -> None:
    listed = ", ".join(SWITCHES)
    with pytest.raises(InvalidRequest, match=rf"'{name}' is not a guardrail; .*'on', 'off' .* {listed}") as refused:
        read_switches(said, Switches())

    assert refused.value.at == "header x-forge-guardrails"


def test_any_is_false_only_if_all_switches_are_off() -> None:
    assert not read_switches("off", Switches()).any
    assert all(read_switches(name, Switches()).any for name in SWITCHES)


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_retries": -1},
        {"max_retries": 11},
        {"max_text_nudges": -1},
        {"text_responses": "sometimes"},
        {"on_exhausted": "ignore"},
        {"on_repeat": "nudge"},
        {"on_early_end": "never"},
        {"enabled": {"rescu": True}},
        {"retries": 3},
    ],
)
def test_an_invalid_setting_is_rejected(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        GuardPolicy.model_validate(wrong)


def test_a_policy_survives_serialization() -> None:
    policy = GuardPolicy(enabled=Switches(validate=False), max_retries=0, on_exhausted="error")

    assert GuardPolicy.model_validate_json(policy.model_dump_json(by_alias=True)) == policy
