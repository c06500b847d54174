"""Tool selection: the right tool among many, the right argument from a result, and a chain of results."""

from __future__ import annotations

from collections.abc import Mapping

from forge_proxy.core.jsontypes import Json, JsonObject
from forge_proxy.core.workflow.errors import ToolResolutionError
from forge_proxy.evals.scenario import Scenario, ScenarioState
from forge_proxy.evals.scenarios.facts import every, is_name, is_number, says
from forge_proxy.evals.scenarios.task import Task, always, call, integer, number, spec, text

# --- three of eight tools ----------------------------------------------------------

_BIKE = {"frame_number": "KX-204", "model": "Trail 9", "year": 2027, "bottom_bracket": "BB-68-119"}
_STOCK = {"part": "BB-68-119", "in_stock": 7, "shelf": "C4"}
_SELECTION = Task(
    name="tool_selection",
    system="You work at the desk of a bicycle workshop. Use only the tools that a request needs. End with answer_desk.",
    user="Frame KX-204 needs a new bottom bracket. Which part is it, how many do we have, and on which shelf?",
    tools=(
        spec("find_customer", "Finds a customer by name.", name=text("Full name.")),
        spec("order_part", "Orders a part from the wholesaler.", part=text("Part number."), count=integer("How many.")),
        spec("identify_bike", "What is known of a bike and its parts.", frame_number=text("Stamped under the frame.")),
        spec("check_bike_stock", "How many whole bikes of a model are for sale.", model=text("Name of the model.")),
        spec("check_part_stock", "How many of a part are in the workshop, and where.", part=text("Part number.")),
        spec("book_repair", "Books a repair.", frame_number=text("Of the bike."), day=text("YYYY-MM-DD.")),
        spec("get_price_list", "Sales prices of a group of parts.", group=text("Such as brakes or chains.")),
        spec(
            "answer_desk",
            "Ends the task: the answer for the desk.",
            part=text("Part number."),
            in_stock=integer("How many there are."),
            shelf=text("Where they are."),
        ),
    ),
    terminal="answer_desk",
    check=every(is_name("part", "BB-68-119"), is_number("in_stock", 7), is_name("shelf", "C4", "shelf C4")),
    ideal=(
        call("identify_bike", frame_number="KX-204"),
        call("check_part_stock", part="BB-68-119"),
        call("answer_desk", part="BB-68-119", in_stock=7, shelf="C4"),
    ),
)


class _Workshop:
    """A workshop that records orders and bookings."""

    def __init__(self) -> None:
        self.written: list[str] = []
        self._bikes = {"KX-204": _BIKE, "KX-240": {**_BIKE, "frame_number": "KX-240", "bottom_bracket": "BB-73-113"}}
        self._parts = {"BB-68-119": _STOCK, "BB-73-113": {"part": "BB-73-113", "in_stock": 2, "shelf": "C5"}}

    def bike(self, frame_number: str) -> Json:
        if frame_number.strip().upper() not in self._bikes:
            raise ToolResolutionError(f"no bike has the frame number {frame_number!r}")
        return self._bikes[frame_number.strip().upper()]

    def part(self, part: str) -> Json:
        if part.strip().upper() not in self._parts:
            raise ToolResolutionError(f"no part {part!r}: a part number reads like BB-00-000")
        return self._parts[part.strip().upper()]

    def order(self, part: str, count: int) -> str:
        self.written.append(f"an order of {count} {part}")
        return "ordered"

    def repair(self, frame_number: str, day: str) -> str:
        self.written.append(f"a repair of {frame_number} on {day}")
        return "booked"

    def untouched(self, _: JsonObject) -> str | None:
        return f"nobody asked for {self.written[0]}" if self.written else None


_DISTRACTORS = {
    "find_customer": always({"customer": "C-118", "bikes": 1}),
    "check_bike_stock": always({"for_sale": 3, "shelf": "showroom"}),
    "get_price_list": always({"BB-73-113": 24.9, "BB-68-119": 21.5}),
}


def _selection(_: int) -> ScenarioState:
    writing = {"order_part": always("ordered"), "book_repair": always("booked")}
    return _SELECTION.world(
        {**_DISTRACTORS, **writing, "identify_bike": always(_BIKE), "check_part_stock": always(_STOCK)}
    )


def _selection_stateful(_: int) -> ScenarioState:
    shop = _Workshop()
    writing = {"order_part": shop.order, "book_repair": shop.repair}
    does = {**_DISTRACTORS, **writing, "identify_bike": shop.bike, "check_part_stock": shop.part}
    return _SELECTION.world(does, shop.untouched)


# --- an id out of a result ---------------------------------------------------------

_FOUND = [
    {"entity_id": 24, "name": "Marlow Sails (closed)", "town": "Kersey"},
    {"entity_id": 42, "name": "Marlow Sails", "town": "Kersey"},
    {"entity_id": 420, "name": "Marlow Sailing School", "town": "Brent"},
]
_ENTITIES: dict[int, Json] = {
    24: {"entity_id": 24, "licence": "L-0917", "licence_ends": "2029-11-30", "berths": 12},
    42: {"entity_id": 42, "licence": "L-2260", "licence_ends": "2033-02-28", "berths": 9},
    420: {"entity_id": 420, "licence": "L-3114", "licence_ends": "2032-06-30", "berths": 31},
}
_LAST_DAY = (
    *("2033-02-28", "28.02.2033", "28.2.2033", "02/28/2033", "2/28/2033"),
    *(f"{day} {month} 2033" for day in ("28", "28th", "28th of") for month in ("February", "Feb")),
    *(f"{month} {day} 2033" for day in ("28", "28th") for month in ("February", "Feb")),
)
_FIDELITY = Task(
    name="argument_fidelity",
    system="You answer from the register of the harbour. Use ids exactly as they are given. End with report_licence.",
    user="What is the licence of Marlow Sails in Kersey, the firm that still trades, and when does it end?",
    tools=(
        spec("search_register", "Firms by name.", name=text("Name or a part of it.")),
        spec("get_entity", "The record of a firm.", entity_id=integer("The id of the firm.")),
        spec(
            "report_licence",
            "Ends the task: reports a licence.",
            entity_id=integer("The id of the firm."),
            licence=text("The licence's number."),
            ends=text("Its last day, as YYYY-MM-DD."),
        ),
    ),
    terminal="report_licence",
    check=every(
        is_number("entity_id", 42),
        is_name("licence", "L-2260"),
        says("ends", _LAST_DAY),
    ),
    ideal=(
        call("search_register", name="Marlow Sails"),
        call("get_entity", entity_id=42),
        call("report_licence", entity_id=42, licence="L-2260", ends="2033-02-28"),
    ),
)


class _Harbour:
    """Returns records only by ids that a search has returned."""

    def __init__(self) -> None:
        self._shown: set[int] = set()

    def search(self, name: str) -> Json:
        if "marlow" not in name.casefold():
            raise ToolResolutionError(f"no firm is called {name!r}")
        self._shown |= set(_ENTITIES)
        return [*_FOUND]

    def entity(self, entity_id: int) -> Json:
        if entity_id not in self._shown:
            raise ToolResolutionError(f"no firm with the id {entity_id} was found; search_register gives ids")
        return _ENTITIES[entity_id]


def _entity(entity_id: int) -> Json:
    return _ENTITIES.get(entity_id, {"entity_id": entity_id, "licence": "none", "berths": 0})


def _fidelity(_: int) -> ScenarioState:
    return _FIDELITY.world({"search_register": always([*_FOUND]), "get_entity": _entity})


def _fidelity_stateful(_: int) -> ScenarioState:
    harbour = _Harbour()
    return _FIDELITY.world({"search_register": harbour.search, "get_entity": harbour.entity})


# --- a chain of results ------------------------------------------------------------

_PERSON = {"name": "Ida Renner", "role": "surveyor", "team_id": "T-6"}
_TEAM = {"team_id": "T-6", "members": 5, "project": "LARK"}
_BUDGET = {"project": "LARK", "granted": 48000, "spent": 29650, "currency": "EUR"}
_CHAIN = Task(
    name="sequential_reasoning",
    system="You look things up step by step: each answer holds what the next question needs. End with report_budget.",
    user="How much money is left in the project that Ida Renner's team works on?",
    tools=(
        spec("get_employee", "The record of an employee.", name=text("Full name.")),
        spec("get_team", "The record of a team.", team_id=text("Id of the team.")),
        spec("get_budget", "What a project was granted and has spent.", project=text("Code of the project.")),
        spec(
            "report_budget",
            "Ends the task: reports what is left.",
            project=text("Code of the project."),
            left=number("What was granted, less what was spent."),
        ),
    ),
    terminal="report_budget",
    required=("get_employee", "get_team", "get_budget"),
    check=every(is_name("project", "LARK", "project LARK"), is_number("left", 18350)),
    ideal=(
        call("get_employee", name="Ida Renner"),
        call("get_team", team_id="T-6"),
        call("get_budget", project="LARK"),
        call("report_budget", project="LARK", left=18350),
    ),
)


class _Office:
    """An office with several persons, teams and projects."""

    def __init__(self) -> None:
        self._people = {"ida renner": _PERSON, "ida rener": {"name": "Ida Rener", "role": "clerk", "team_id": "T-9"}}
        self._teams = {"T-6": _TEAM, "T-9": {"team_id": "T-9", "members": 2, "project": "WREN"}}
        self._budgets = {"LARK": _BUDGET, "WREN": {**_BUDGET, "project": "WREN", "granted": 7000, "spent": 6900}}

    def employee(self, name: str) -> Json:
        return _found(self._people, " ".join(name.casefold().split()), "nobody is called", name)

    def team(self, team_id: str) -> Json:
        return _found(self._teams, team_id.strip().upper(), "no team has the id", team_id)

    def budget(self, project: str) -> Json:
        return _found(self._budgets, project.strip().upper(), "no project has the code", project)


def _found(records: Mapping[str, JsonObject], key: str, otherwise: str, said: str) -> Json:
    if key not in records:
        raise ToolResolutionError(f"{otherwise} {said!r}")
    return records[key]


def _chain(_: int) -> ScenarioState:
    return _CHAIN.world({"get_employee": always(_PERSON), "get_team": always(_TEAM), "get_budget": always(_BUDGET)})


def _chain_stateful(_: int) -> ScenarioState:
    office = _Office()
    return _CHAIN.world({"get_employee": office.employee, "get_team": office.team, "get_budget": office.budget})


_QUALITY = frozenset({"model_quality"})
_STATEFUL = frozenset({"model_quality", "stateful"})

SCENARIOS = (
    Scenario("tool_selection", "Two lookups among seven tools that sound alike.", _QUALITY, 3, _selection),
    Scenario("argument_fidelity", "The id 42 out of a list of firms of like names.", _QUALITY, 3, _fidelity),
    Scenario("sequential_reasoning", "Four steps, each of which needs the one before.", _QUALITY, 4, _chain),
    Scenario("tool_selection_stateful", "Nothing is ordered by mistake.", _STATEFUL, 3, _selection_stateful),
    Scenario("argument_fidelity_stateful", "Only ids that were found.", _STATEFUL, 3, _fidelity_stateful),
    Scenario("sequential_reasoning_stateful", "Among others of like names.", _STATEFUL, 4, _chain_stateful),
)
