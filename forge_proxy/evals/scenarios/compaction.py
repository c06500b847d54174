"""Long results in a small context: a run that continues after compaction, and an audit of a store room."""

from __future__ import annotations

from collections.abc import Mapping

from forge_proxy.core.jsontypes import JsonObject
from forge_proxy.core.workflow.errors import ToolResolutionError
from forge_proxy.evals.scenario import Scenario, ScenarioState
from forge_proxy.evals.scenarios.facts import every, is_name, is_number, is_set
from forge_proxy.evals.scenarios.task import Task, always, call, integer, spec, text, texts

# --- two long documents ------------------------------------------------------------

_WATCHES = (
    "the wind stood in the west and the sea was calm, so the mate had the deck washed and the boats looked after",
    "a fishing boat was spoken off the light, which had seen no ice this week and wished the ship a good passage",
    "the cook reported that the fresh bread was gone, and opened the first barrel of biscuit before supper",
    "rain came over from the hills, the hatches were looked after twice, and no water was found in the hold",
    "the second mate took the bearing of the church and the mill, and found the ship a little south of her course",
)
_LOGBOOK = "Ship Tern, voyage V-58, from Norrhamn to Vik. " + " ".join(
    f"In the {watch} watch {what}." for watch in ("first", "middle", "morning", "dog") for what in _WATCHES[:5]
)
_GOODS = (
    "crates of window glass in straw, to be kept upright",
    "crates of clay tiles, sorted by colour and marked with chalk",
    "crates of lamp oil in tins, to be stowed away from the galley",
    "crates of school books, wrapped in waxed paper against the damp",
)
_MANIFEST = "Manifest M-2214 of voyage V-58. Declared in all: 320 crates. " + " ".join(
    f"For the {house} house: {what}, to be handed to the agent on the quay against his signature."
    for house in ("north", "south", "upper", "lower")
    for what in _GOODS
)
_COUNT = (
    "Count of the cargo of manifest M-2214 at dock 6. Counted in all: 297 crates. "
    + "Each crate was lifted onto the quay, looked at from all sides, weighed, and set down behind the shed. " * 10
)
_STRESS = Task(
    name="compaction_stress",
    system="You check cargoes. What you read first may be cut short later on. End with file_discrepancy.",
    user="Find out whether the latest cargo of the ship Tern arrived in full: logbook, manifest, count. Then file it.",
    tools=(
        spec("read_logbook", "The latest logbook of a ship.", ship=text("Name of the ship.")),
        spec("read_manifest", "What was loaded for a voyage.", voyage=text("Id of the voyage.")),
        spec("count_cargo", "Has a cargo counted.", manifest=text("Id of the manifest.")),
        spec(
            "file_discrepancy",
            "Ends the task: files what was declared and what arrived.",
            manifest=text("Id of the manifest."),
            declared=integer("Crates that were declared."),
            counted=integer("Crates that were counted."),
            missing=integer("How many are missing."),
        ),
    ),
    terminal="file_discrepancy",
    required=("read_logbook", "read_manifest", "count_cargo"),
    check=every(
        is_name("manifest", "M-2214"),
        is_number("declared", 320),
        is_number("counted", 297),
        is_number("missing", 23),
    ),
    ideal=(
        call("read_logbook", ship="Tern"),
        call("read_manifest", voyage="V-58"),
        call("count_cargo", manifest="M-2214"),
        call("file_discrepancy", manifest="M-2214", declared=320, counted=297, missing=23),
    ),
)


class _Port:
    """A port authority whose documents refer to each other."""

    def __init__(self) -> None:
        self._known: set[str] = set()

    def logbook(self, ship: str) -> str:
        if ship.casefold().removeprefix("the ").strip() != "tern":
            raise ToolResolutionError(f"no ship {ship!r} has come in; there is: Tern")
        self._known.add("V-58")
        return _LOGBOOK

    def manifest(self, voyage: str) -> str:
        self._check("voyage", voyage)
        self._known.add("M-2214")
        return _MANIFEST

    def count(self, manifest: str) -> str:
        self._check("manifest", manifest)
        return _COUNT

    def _check(self, kind: str, said: str) -> None:
        if said.strip().upper() not in self._known:
            raise ToolResolutionError(
                f"no {kind} {said!r} is known; known: {', '.join(sorted(self._known)) or 'nothing'}"
            )


def _stress(_: int) -> ScenarioState:
    does = {"read_logbook": always(_LOGBOOK), "read_manifest": always(_MANIFEST), "count_cargo": always(_COUNT)}
    return _STRESS.world(does)


def _stress_stateful(_: int) -> ScenarioState:
    port = _Port()
    return _STRESS.world({"read_logbook": port.logbook, "read_manifest": port.manifest, "count_cargo": port.count})


# --- a store room ------------------------------------------------------------------

_ON_SHELF: Mapping[str, Mapping[str, tuple[int, int]]] = {
    "A": {"rope": (40, 40), "canvas": (12, 9), "tar": (30, 30), "oakum": (55, 55)},
    "B": {"nails": (900, 900), "rivets": (640, 640), "chain": (18, 18), "anchors": (4, 4)},
    "C": {"lamps": (26, 26), "wicks": (310, 310), "oil tins": (75, 81), "matches": (200, 200)},
}
"""Recorded and actual quantity by aisle and item."""
_AISLE_NOTE = (
    "The boxes stand in two rows, the labels face the door, and the floor is dry and swept. Nothing was broken, "
    "nothing was open, and no box stood in a place that is not its own."
)
_RIGHT = {"canvas": 9, "oil tins": 81}
_AUDIT = Task(
    name="inventory_audit",
    system=(
        "You audit a store room. Count each aisle; where the book and the shelf differ, correct the book at once, and "
        "nothing else. What you read first may be cut short later on. End with close_audit."
    ),
    user="Audit the aisles A, B and C, correct the book, and close the audit with the items that you corrected.",
    tools=(
        spec("count_aisle", "Counts what is in an aisle.", aisle=text("A letter.")),
        spec("correct_book", "Puts a number into the book.", item=text("The item."), count=integer("As on the shelf.")),
        spec(
            "close_audit",
            "Ends the task: closes the audit.",
            corrected=texts("The items that were corrected."),
            difference=integer("All surpluses less all losses."),
        ),
    ),
    terminal="close_audit",
    required=("count_aisle",),
    check=every(is_set("corrected", *_RIGHT), is_number("difference", 3)),
    ideal=(
        call("count_aisle", aisle="A"),
        call("correct_book", item="canvas", count=9),
        call("count_aisle", aisle="B"),
        call("count_aisle", aisle="C"),
        call("correct_book", item="oil tins", count=81),
        call("close_audit", corrected=["canvas", "oil tins"], difference=3),
    ),
)


class _StoreRoom:
    """A store room whose records the audit corrects."""

    def __init__(self) -> None:
        self._book = {item: booked for aisle in _ON_SHELF.values() for item, (booked, _) in aisle.items()}
        self._counted: set[str] = set()

    def count(self, aisle: str) -> str:
        name = aisle.strip().upper().removeprefix("AISLE ")
        if name not in _ON_SHELF:
            raise ToolResolutionError(f"there is no aisle {aisle!r}; there are A, B and C")
        self._counted.add(name)
        lines = (f"{item}: on the shelf {there}, in the book {self._book[item]}. {_AISLE_NOTE}"
                 for item, (_, there) in _ON_SHELF[name].items())  # fmt: skip
        return f"Aisle {name}. " + " ".join(lines)

    def correct(self, item: str, count: int) -> str:
        name = item.strip().casefold()
        if name not in self._book:
            raise ToolResolutionError(f"the book has no {item!r}; it has: {', '.join(self._book)}")
        if count < 0:
            raise ValueError(f"count is {count}: there cannot be fewer than none")
        was, self._book[name] = self._book[name], count
        return f"The book now says {count} {name}, where it said {was}."

    def in_order(self, _: JsonObject) -> str | None:
        there = {item: count for aisle in _ON_SHELF.values() for item, (_, count) in aisle.items()}
        wrong = [
            f"{item} ({self._book[item]} for {count})" for item, count in there.items() if self._book[item] != count
        ]
        if wrong:
            return f"the book, whatever corrected says, is wrong in {', '.join(wrong)}"
        missing = sorted(set(_ON_SHELF) - self._counted)
        return f"aisles that were never counted: {', '.join(missing)}" if missing else None


def _audit(_: int) -> ScenarioState:
    room = _StoreRoom()
    return _AUDIT.world({"count_aisle": room.count, "correct_book": room.correct}, room.in_order)


SCENARIOS = (
    Scenario(
        "compaction_stress",
        "Three long papers, then a report.",
        frozenset({"plumbing", "compaction"}),
        4,
        _stress,
        budget_tokens=2048,
    ),
    Scenario(
        "compaction_stress_stateful",
        "Each paper leads to the next.",
        frozenset({"stateful", "compaction"}),
        4,
        _stress_stateful,
        budget_tokens=2048,
    ),
    Scenario(
        "inventory_audit",
        "A book that has to be put right on the way.",
        frozenset({"stateful", "compaction"}),
        6,
        _audit,
        budget_tokens=1160,
    ),
)
