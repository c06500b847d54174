"""Basic tool use: does the model call tools, in the right order, and does it correct a failed call?"""

from __future__ import annotations

import re

from forge_proxy.core.jsontypes import Json
from forge_proxy.core.workflow.errors import ToolResolutionError
from forge_proxy.evals.scenario import Scenario, ScenarioState
from forge_proxy.evals.scenarios.facts import every, is_name, is_number, never_says, says
from forge_proxy.evals.scenarios.task import Task, always, call, integer, number, spec, text


def _system(end: str) -> str:
    return f"You are an assistant that works with tools. Call one tool at a time, and end with {end}."


# --- two steps ---------------------------------------------------------------------

_HOURS = {"place": "Harbour Pool", "opens": "07:30", "closes": "21:00", "closed_on": "Monday"}
_HOURS_TOOLS = (
    spec("get_opening_hours", "The opening hours of a public place.", place=text("Name of the place.")),
    spec(
        "report_hours",
        "Ends the task: tells the caller the opening hours.",
        place=text("Registered name of the place."),
        opens=text("When it opens, as HH:MM."),
        closes=text("When it closes, as HH:MM."),
    ),
)
_HOURS_ARE_RIGHT = every(
    is_name("place", "Harbour Pool"),
    says("opens", ("07:30", "7:30")),
    never_says("opens", "pm", "p.m."),
    says("closes", ("21:00", "9:00 pm", "09:00 pm", "9 pm")),
)
_BASIC = Task(
    name="basic_2step",
    system=_system("report_hours"),
    user="When does the Harbour Pool open and close? Look it up, then report the hours.",
    tools=_HOURS_TOOLS,
    terminal="report_hours",
    check=_HOURS_ARE_RIGHT,
    ideal=(
        call("get_opening_hours", place="Harbour Pool"),
        call("report_hours", place="Harbour Pool", opens="07:30", closes="21:00"),
    ),
)
_NICKNAME = Task(
    name="basic_2step_stateful_tre",
    system=_system("report_hours"),
    user="When does the pool that people call Duck Pond open and close? Look it up, then report the hours.",
    tools=_HOURS_TOOLS,
    terminal="report_hours",
    check=_HOURS_ARE_RIGHT,
    required=("get_opening_hours",),
    ideal=(
        call("get_opening_hours", place="Duck Pond"),
        call("get_opening_hours", place="Harbour Pool"),
        call("report_hours", place="Harbour Pool", opens="07:30", closes="21:00"),
    ),
)


class _Register:
    """A register of public places by their registered names."""

    def __init__(self) -> None:
        self._hours = {
            "harbour pool": _HOURS,
            "mill library": {"place": "Mill Library", "opens": "10:00", "closes": "18:00", "closed_on": "Sunday"},
        }

    def hours(self, place: str) -> Json:
        found = self._hours.get(place.casefold().removeprefix("the ").strip())
        if found is None:
            names = "Harbour Pool (called Duck Pond by many), Mill Library"
            raise ToolResolutionError(f"no place is registered as {place!r}. Registered: {names}.")
        return found


def _basic(_: int) -> ScenarioState:
    return _BASIC.world({"get_opening_hours": always(_HOURS)})


def _basic_stateful(_: int) -> ScenarioState:
    return _BASIC.world({"get_opening_hours": _Register().hours})


def _nickname(_: int) -> ScenarioState:
    return _NICKNAME.world({"get_opening_hours": _Register().hours})


# --- three steps, in order ---------------------------------------------------------

_READINGS = {"dataset_id": "DS-17", "station": "Elm Weir", "hours": 24, "unit": "cm"}
_ANALYSIS = {"dataset_id": "DS-17", "mean_cm": 182.5, "peak_cm": 211, "trend": "rising"}
_SEQUENTIAL = Task(
    name="sequential_3step",
    system=_system("file_report"),
    user="Report on the water level at the station Elm Weir: fetch its readings, analyze them, then file the report.",
    tools=(
        spec("fetch_readings", "Fetches the readings of a station as a dataset.", station=text("Name of the station.")),
        spec(
            "analyze_readings", "Analyzes a dataset of readings.", dataset_id=text("The id that fetch_readings gave.")
        ),
        spec(
            "file_report",
            "Ends the task: files the report.",
            station=text("Name of the station."),
            mean_cm=number("Mean level in centimetres."),
            peak_cm=number("Highest level in centimetres."),
            trend=text("rising, falling or steady."),
        ),
    ),
    terminal="file_report",
    required=("fetch_readings", "analyze_readings"),
    check=every(
        is_name("station", "Elm Weir"),
        is_number("mean_cm", 182.5),
        is_number("peak_cm", 211),
        says("trend", ("rising", "rise", "rises", "up", "upward", "increasing")),
        never_says("trend", "falling", "steady", "down", "not rising"),
    ),
    ideal=(
        call("fetch_readings", station="Elm Weir"),
        call("analyze_readings", dataset_id="DS-17"),
        call("file_report", station="Elm Weir", mean_cm=182.5, peak_cm=211, trend="rising"),
    ),
)


class _Gauges:
    """Creates a dataset when readings are fetched."""

    def __init__(self) -> None:
        self._fetched: dict[str, Json] = {}

    def fetch(self, station: str) -> Json:
        if station.casefold().strip() != "elm weir":
            raise ToolResolutionError(f"no station {station!r}; there is: Elm Weir")
        self._fetched["DS-17"] = _ANALYSIS
        return _READINGS

    def analyze(self, dataset_id: str) -> Json:
        if dataset_id not in self._fetched:
            raise ToolResolutionError(
                f"no dataset {dataset_id!r}; fetched so far: {', '.join(self._fetched) or 'none'}"
            )
        return self._fetched[dataset_id]


def _sequential(_: int) -> ScenarioState:
    return _SEQUENTIAL.world({"fetch_readings": always(_READINGS), "analyze_readings": always(_ANALYSIS)})


def _sequential_stateful(_: int) -> ScenarioState:
    gauges = _Gauges()
    return _SEQUENTIAL.world({"fetch_readings": gauges.fetch, "analyze_readings": gauges.analyze})


# --- a call that fails -------------------------------------------------------------

_ISO_DAY = re.compile(r"\d{4}-\d\d-\d\d")
_SAILINGS = {"day": "2031-05-09", "route": "Norrhamn to Vik", "sailings": 6, "first": "05:45", "last": "22:10"}
_ERROR = Task(
    name="error_recovery",
    system=_system("report_sailings") + " When a tool fails, read its error and mend the call.",
    user="How many ferries sail from Norrhamn to Vik on 9 May 2031, and when is the last one? Look it up and report.",
    tools=(
        spec("get_sailings", "The ferries from Norrhamn to Vik on a day.", day=text("The day.")),
        spec(
            "report_sailings",
            "Ends the task: tells how many sailings there are and when the last one is.",
            sailings=integer("How many there are."),
            last=text("When the last one leaves, as HH:MM."),
        ),
    ),
    terminal="report_sailings",
    check=every(is_number("sailings", 6), says("last", ("22:10", "10:10 pm"))),
    ideal=(call("get_sailings", day="2031-05-09"), call("report_sailings", sailings=6, last="22:10")),
)


def _sailings(day: str) -> Json:
    # What it takes is not in its schema: the model learns it from the error, unless it writes days so anyway.
    if not _ISO_DAY.fullmatch(day.strip()):
        raise TypeError(f"day has to be a date written YYYY-MM-DD, such as 2031-01-31, not {day!r}")
    return _SAILINGS


class _Timetable:
    """A timetable for one week."""

    def __init__(self) -> None:
        self._days = {f"2031-05-{day:02}": {**_SAILINGS, "day": f"2031-05-{day:02}"} for day in range(5, 12)}
        self._days["2031-05-10"] |= {"sailings": 4, "last": "19:20"}
        self._days["2031-05-11"] |= {"sailings": 3, "last": "18:00"}

    def sailings(self, day: str) -> Json:
        if not _ISO_DAY.fullmatch(day.strip()):
            raise TypeError(f"day has to be a date written YYYY-MM-DD, such as 2031-01-31, not {day!r}")
        if day.strip() not in self._days:
            raise ToolResolutionError(f"no timetable for {day}; there are 2031-05-05 to 2031-05-11")
        return self._days[day.strip()]


def _error(_: int) -> ScenarioState:
    return _ERROR.world({"get_sailings": _sailings})


def _error_stateful(_: int) -> ScenarioState:
    return _ERROR.world({"get_sailings": _Timetable().sailings})


_PLUMBING = frozenset({"plumbing"})
_STATEFUL = frozenset({"plumbing", "stateful"})

SCENARIOS = (
    Scenario("basic_2step", "Fetch one fact and report it.", _PLUMBING, 2, _basic),
    Scenario("sequential_3step", "Three required steps in their order.", _PLUMBING, 3, _sequential),
    Scenario("error_recovery", "A tool refuses a badly written date.", _PLUMBING, 2, _error),
    Scenario("basic_2step_stateful", "Fetch one fact of a register and report it.", _STATEFUL, 2, _basic_stateful),
    Scenario(
        "basic_2step_stateful_tre",
        "A name that the register does not know.",
        _STATEFUL,
        3,
        _nickname,
    ),
    Scenario(
        "sequential_3step_stateful",
        "Three steps; a dataset exists once it was fetched.",
        _STATEFUL,
        3,
        _sequential_stateful,
    ),
    Scenario("error_recovery_stateful", "A badly written date, and days that differ.", _STATEFUL, 2, _error_stateful),
)
