"""Which guardrails are on: the configuration's, and what one request makes of them."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from forge_proxy.core.errors import InvalidRequest
from forge_proxy.core.guardrails.policy import SWITCHES, GuardPolicy, Switches, read_switches


def on(switches: Switches) -> list[str]:
    return [name for name, is_on in switches.model_dump(by_alias=True).items() if is_on]


@pytest.mark.parametrize("said", [None, "", " ", ",", "on", "ON", " on "])
def test_nothing_and_on_leave_the_switches(said: str | None) -> None:
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
        ("respond,rescue,validate,retry,loops", list(SWITCHES)),
    ],
)
def test_a_list_leaves_on_just_those_named(said: str, left: list[str]) -> None:
    assert on(read_switches(said, Switches())) == left


def test_what_the_daemon_has_switched_off_stays_off() -> None:
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
def test_an_unknown_name_is_refused_with_those_that_are_known(said: str, name: str) -> None:
    with pytest.raises(
        InvalidRequest, match=rf"'{name}' is not a guardrail; .*'on', 'off' .* respond, rescue, validate, retry, loops"
    ) as refused:
        read_switches(said, Switches())

    assert refused.value.at == "header x-forge-guardrails"


def test_only_all_switches_off_leave_nothing_to_do() -> None:
    assert not read_switches("off", Switches()).any
    assert all(read_switches(name, Switches()).any for name in SWITCHES)


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_retries": -1},
        {"max_retries": 11},
        {"max_text_nudges": -1},
        {"text_answers": "sometimes"},
        {"on_exhausted": "ignore"},
        {"enabled": {"rescu": True}},
        {"retries": 3},
    ],
)
def test_a_wrong_setting_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        GuardPolicy.model_validate(wrong)


def test_a_policy_can_be_written_down_and_read_again() -> None:
    policy = GuardPolicy(enabled=Switches(validate=False), max_retries=0, on_exhausted="error")

    assert GuardPolicy.model_validate_json(policy.model_dump_json(by_alias=True)) == policy
