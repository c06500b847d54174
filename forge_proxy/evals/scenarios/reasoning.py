"""Reasoning: an incident that several records explain together, and a chain of lookups with dead ends."""

from __future__ import annotations

from collections.abc import Mapping

from forge_proxy.core.jsontypes import Json
from forge_proxy.core.workflow.errors import ToolResolutionError
from forge_proxy.evals.scenario import Scenario, ScenarioState
from forge_proxy.evals.scenarios.facts import every, is_name, is_number
from forge_proxy.evals.scenarios.task import Does, Task, always, call, choice, integer, number, spec, text

# --- who has to deal with an incident ----------------------------------------------

_ALERT = {"alert_id": "AL-71", "service": "checkout", "began": "14:14", "symptom": "one order in five fails"}
_LOG: Mapping[str, Json] = {
    "checkout": ["14:14 timeout calling pricing", "14:15 timeout calling pricing", "14:17 timeout calling pricing"],
    "pricing": ["14:12 cannot read table tariffs", "14:13 cannot read table tariffs"],
    "search": [],
}
_DEPLOYMENTS: Mapping[str, Json] = {
    "checkout": [{"deployment": "D-871", "at": "09:02", "team": "Payments"}],
    "pricing": [
        {"deployment": "D-879", "at": "11:40", "team": "Payments"},
        {"deployment": "D-883", "at": "14:10", "team": "Catalogue"},
    ],
    "search": [{"deployment": "D-884", "at": "14:11", "team": "Discovery"}],
}
_ROUTING = Task(
    name="conditional_routing",
    system=(
        "You triage incidents. A service that only waits for another one is not the cause: look at the other one. "
        "If the cause was deployed less than 30 minutes before the alert, route to the team that deployed it, "
        "severity high. Otherwise route to Operations, severity medium. End with route_incident."
    ),
    user="Alert AL-71 has come in. Find out which service is the cause, and route the incident.",
    tools=(
        spec("get_alert", "An alert.", alert_id=text("Id of the alert.")),
        spec("get_error_log", "The latest errors of a service.", service=text("Name of the service.")),
        spec("get_deployments", "Today's deployments of a service.", service=text("Name of the service.")),
        spec(
            "route_incident",
            "Ends the task: hands the incident to a team.",
            team=text("The team, or Operations."),
            cause=text("The service that is the cause."),
            deployment=text("Id of the deployment to be looked at, or none."),
            severity=choice("How pressing it is.", "low", "medium", "high"),
        ),
    ),
    terminal="route_incident",
    required=("get_alert", "get_deployments"),
    check=every(
        is_name("cause", "pricing", "pricing service"),
        is_name("team", "Catalogue", "Catalogue team", "team Catalogue", "Catalog"),
        is_name("deployment", "D-883"),
        is_name("severity", "high"),
    ),
    ideal=(
        call("get_alert", alert_id="AL-71"),
        call("get_error_log", service="checkout"),
        call("get_deployments", service="pricing"),
        call("route_incident", team="Catalogue", cause="pricing", deployment="D-883", severity="high"),
    ),
)


class _Control:
    """Knows services by name, and the alerts received."""

    def __init__(self) -> None:
        self._seen: set[str] = set()

    def alert(self, alert_id: str) -> Json:
        if alert_id.strip().upper() != "AL-71":
            raise ToolResolutionError(f"no alert {alert_id!r} has come in")
        self._seen.add("checkout")
        return _ALERT

    def log(self, service: str) -> Json:
        if service.strip() not in self._seen:
            raise ToolResolutionError(
                f"the log of {service!r} is closed: neither an alert nor a log names that service"
            )
        if service.strip() == "checkout":
            self._seen.add("pricing")
        return _LOG[service.strip()]

    def deployments(self, service: str) -> Json:
        if service.strip() not in _DEPLOYMENTS:
            raise ToolResolutionError(f"no service {service!r}; there are {', '.join(_DEPLOYMENTS)}")
        return _DEPLOYMENTS[service.strip()]


def _of_service(records: Mapping[str, Json]) -> Does:
    def give(service: str) -> Json:
        return records.get(service.strip(), [])

    return give


def _routing(_: int) -> ScenarioState:
    return _ROUTING.world(
        {
            "get_alert": always(_ALERT),
            "get_error_log": _of_service(_LOG),
            "get_deployments": _of_service(_DEPLOYMENTS),
        }
    )


def _routing_stateful(_: int) -> ScenarioState:
    control = _Control()
    return _ROUTING.world(
        {"get_alert": control.alert, "get_error_log": control.log, "get_deployments": control.deployments}
    )


# --- a trail with dead ends --------------------------------------------------------

_NOT_THERE = (
    "No calibration is on record for that name. Instruments were given new names in 2030: list_renamings has them."
)
_RENAMED = {"old_name": "Gull Point", "new_name": "HYD-7", "since": "2030-01-01"}
_ON_PAPER = {"instrument": "HYD-7", "year": 2029, "offset_mm": None, "note": "before 2030 on paper only: sheet 114"}
_SHEET = "Sheet 114. Gull Point gauge. Calibrated 3 June 2029 by O. Fenn. Reads 2.5 mm too high: offset -2.5 mm."
_GAP = Task(
    name="data_gap_recovery",
    system=(
        "You look after the records of water gauges. A record may be missing or lie elsewhere: follow what the tools "
        "say, and never guess a figure. End with report_offset."
    ),
    user="By what offset, in millimetres, was the Gull Point gauge corrected in its calibration of 2029, and by whom?",
    tools=(
        spec(
            "get_calibration", "The calibration of an instrument in a year.",
            instrument=text("Name of the instrument."), year=integer("The year."),
        ),
        spec("list_renamings", "What an instrument is called now.", old_name=text("What it was called.")),
        spec("read_scan", "The text of a scanned paper sheet.", sheet=integer("Number of the sheet.")),
        spec("get_tide_table", "High and low water of a day.", day=text("YYYY-MM-DD.")),
        spec(
            "report_offset",
            "Ends the task: reports the calibration.",
            instrument=text("What the instrument is called now."),
            offset_mm=number("The offset in millimetres, with its sign."),
            calibrated_by=text("Name of the person."),
        ),
    ),
    terminal="report_offset",
    check=every(
        is_name("instrument", "HYD-7"),
        is_number("offset_mm", -2.5),
        is_name("calibrated_by", "O. Fenn", "Fenn"),
    ),
    ideal=(
        call("get_calibration", instrument="Gull Point", year=2029),
        call("list_renamings", old_name="Gull Point"),
        call("get_calibration", instrument="HYD-7", year=2029),
        call("read_scan", sheet=114),
        call("report_offset", instrument="HYD-7", offset_mm=-2.5, calibrated_by="O. Fenn"),
    ),
)  # fmt: skip
_TIDES = always({"high": ["04:10", "16:35"], "low": ["10:20", "22:50"]})


def _calibration(instrument: str, year: int) -> Json:
    return _ON_PAPER if instrument.strip().upper() == "HYD-7" else _NOT_THERE


class _Archive:
    """Returns a sheet only if an earlier result contained its number."""

    def __init__(self) -> None:
        self._known: set[int] = set()

    def calibration(self, instrument: str, year: int) -> Json:
        if instrument.strip().upper() != "HYD-7":
            raise ToolResolutionError(_NOT_THERE)
        if year != 2029:
            raise ToolResolutionError(f"HYD-7 was not calibrated in {year}")
        self._known.add(114)
        return _ON_PAPER

    def renaming(self, old_name: str) -> Json:
        if "gull point" not in old_name.casefold():
            raise ToolResolutionError(f"no instrument was called {old_name!r}")
        return _RENAMED

    def sheet(self, sheet: int) -> str:
        if sheet not in self._known:
            raise ValueError(f"sheet {sheet} cannot be lent: no record you have read refers to it")
        return _SHEET


def _gap(_: int) -> ScenarioState:
    does = {"get_calibration": _calibration, "list_renamings": always(_RENAMED), "read_scan": always(_SHEET)}
    return _GAP.world({**does, "get_tide_table": _TIDES})


def _gap_stateful(_: int) -> ScenarioState:
    archive = _Archive()
    does = {"get_calibration": archive.calibration, "list_renamings": archive.renaming, "read_scan": archive.sheet}
    return _GAP.world({**does, "get_tide_table": _TIDES})


_REASONING = frozenset({"model_quality", "reasoning"})
_STATEFUL = frozenset({"model_quality", "reasoning", "stateful"})

SCENARIOS = (
    Scenario("conditional_routing", "An incident whose cause is another service.", _REASONING, 4, _routing),
    Scenario("data_gap_recovery", "A record under another name, and on paper.", _REASONING, 5, _gap),
    Scenario("conditional_routing_stateful", "Logs open one by one.", _STATEFUL, 4, _routing_stateful),
    Scenario("data_gap_recovery_stateful", "Sheets have to be found.", _STATEFUL, 5, _gap_stateful),
)
