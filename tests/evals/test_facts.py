"""Facts are recognized in any format, and other text is not mistaken for them."""

from __future__ import annotations

import pytest

from forge_proxy.core.jsontypes import Json
from forge_proxy.evals.scenarios.facts import (
    Check,
    every,
    is_name,
    is_number,
    is_set,
    never_says,
    says,
)
from forge_proxy.evals.scenarios.relevance import declines
from tests.folding import folded

NUMBERS: list[tuple[float, Json, bool]] = [
    (1250, 1250, True),
    (1250, 1250.0, True),
    (1250, "1,250", True),
    (1250, "1.250", True),
    (1250, "1 250 EUR", True),
    (1250, "€ 1'250.00", True),
    (1250, "1,250.00", True),
    (1250, "1.250,00", True),
    (1250, "about 1250.", True),
    (1250, "12,50", False),
    (1250, "1,2500", False),
    (1250, "X1250", False),
    (12.5, "12,5 %", True),
    (12.5, 125, False),
    (-2.5, "-2.5 mm", True),
    (-2.5, "−2.5", True),
    (-2.5, 2.5, False),
    (2.5, "-2.5", False),
    (3, "three crates", True),
    (3, "3, 4", False),
    (6, "5 or 6", False),
    (6, "six or five", False),
    (6, "6 or 6.0", True),
    (6, "6 sailings on 2031-05-09", True),
    (42, [24, 42], False),
    (42, [42, "42"], True),
    (42, [], False),
    (18350, "48000 - 29650 = 18350", True),
    (18350, "EUR18350", True),
    (18350, "XEUR18350", False),
    (-2.5, "minus 2.5 mm", True),
    (3, "thirteen", False),
    (1, True, False),
    (5, None, False),
    (5, [5], True),
    (9, "2031-05-09", True),
]


@pytest.mark.parametrize(("value", "written", "same"), NUMBERS, ids=str)
def test_numbers(value: float, written: Json, same: bool) -> None:
    assert (is_number("n", value)({"n": written}) is None) is same


def test_rounding_is_allowed_only_within_its_limit() -> None:
    check = is_number("n", 1625.6, within=1)

    assert check({"n": 1626}) is None
    assert check({"n": 1627}) == "n should be 1625.6, not '1627'"


TEXTS: list[tuple[Check, Json, bool]] = [
    (is_name("f", "Harbour Pool"), "the harbour  pool", True),
    (is_name("f", "Harbour Pool"), "Harbour_Pool", True),
    (is_name("f", "Harbour Pool"), "Harbour Pool or Mill Library", False),
    (is_name("f", "BB-68-119"), "bb 68 119", True),
    (is_name("f", "BB-68-119"), "BB-68-1190", False),
    (is_name("f", "42"), "#42", True),
    (is_name("f", "42"), 42, True),
    (is_name("f", "Éva"), "EVA", True),
    (is_name("f", "Eva"), "", False),
    (says("f", "Hanna Orre"), "It was built for Hanna Orre.", True),
    (says("f", "Hanna Orre"), "Hanna, not Orre", False),
    (says("f", ("22:10", "10:10 pm")), "at 10:10pm", True),
    (says("f", ("22:10", "10:10 pm")), "at 10:10 p.m.", True),
    (says("f", ("22:10", "10:10 pm")), "at 10:10", False),
    (says("f", ("22:10", "10:10 pm")), "at 10:10 a.m.", False),
    (says("f", "sunny", 17), "The weather is sunny. The temperature is 17.", True),
    (says("f", "sunny", 17), "The weather is sunny. The temperature is 170.", False),
    (says("f", "sun"), "sunny", False),
    (says("f", "a"), {"first": "a"}, True),
    (never_says("f", "Per Orre"), "for Hanna Orre", True),
    (never_says("f", "Per Orre"), "for Hanna and Per Orre", False),
    (is_set("f", "Brandt", "Dunmore"), ["dunmore", "Brandt"], True),
    (is_set("f", "Brandt", "Dunmore"), "Brandt and Dunmore", True),
    (is_set("f", "Brandt", "Dunmore"), "Brandt, Dunmore, Eklund", False),
    (is_set("f", "Brandt", "Dunmore"), ["Brandt"], False),
    (is_set("f", "oil tins"), ["oil"], False),
    (every(says("f", "a"), says("f", "b")), "a b", True),
    (every(says("f", "a"), says("f", "b")), "a", False),
    (declines("f"), "I have no tool for that.", True),
    (declines("f"), "Sorry, I can’t look that up with these tools.", True),
    (declines("f"), "That is outside of what I can do here.", True),
    (declines("f"), "I can only help with books.", True),
    (declines("f"), "I'm unable to help with exchange rates.", True),
    (declines("f"), "None of the available tools can tell exchange rates.", True),
    (declines("f"), "Sorry, that's not something my tools cover.", True),
    (declines("f"), "My tools only cover the lending library.", True),
    (declines("f"), "Exchange rates are out of scope here.", True),
    (declines("f"), "I don't currently have access to them.", True),
    (declines("f"), "There isn’t a tool for that.", True),
    (declines("f"), "That is not within my capabilities.", True),
    (declines("f"), "I won't be able to answer that.", True),
    (declines("f"), "Sorry, I have no such tool.", True),
    (declines("f"), "I cannot be sure, but it may be 164 yen.", False),
    (declines("f"), "I cannot be sure, but it may be one hundred sixty-four yen.", False),
    (declines("f"), "It will certainly rise.", False),
    (declines("f"), "Here is a joke about a duck.", False),
    (declines("f"), ["no tool"], False),
]


@folded
@pytest.mark.parametrize(("check", "written", "right"), TEXTS, ids=lambda value: str(value)[:40])
def test_texts(check: Check, written: Json, right: bool) -> None:
    assert (check({"f": written}) is None) is right


def test_the_fault_is_described() -> None:
    assert says("summary", ("rain", "rainy"))({"summary": "Dry."}) == "summary does not name rain or rainy: 'Dry.'"
    assert says("summary", 17)({}) == "summary does not name 17: it is missing"
    assert never_says("summary", "snow")({"summary": "snow"}) == "summary names 'snow', which is wrong: 'snow'"
    assert is_name("id", "B-17")({"id": 17}) == "id should be B-17, not '17'"
    assert is_set("names", "A", "B")({"names": ["A", "C"]}) == "names lacks B: 'A, C'"
    assert is_set("names", "A")({"names": ["A", "C"]}) == "names names c, which should not be there"
    assert len(says("text", "x")({"text": "y" * 5000}) or "") < 250
