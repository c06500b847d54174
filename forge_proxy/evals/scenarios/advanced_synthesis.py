"""Advanced reasoning: results that must be converted before the next call, and a summary of what several
sources say, and do not say.
"""

from __future__ import annotations

from collections.abc import Mapping

from forge_proxy.core.jsontypes import Json
from forge_proxy.core.workflow.errors import ToolResolutionError
from forge_proxy.evals.scenario import Scenario, ScenarioState
from forge_proxy.evals.scenarios.facts import every, is_name, is_number, is_set, never_says, says
from forge_proxy.evals.scenarios.task import Task, always, call, integer, spec, text, texts

# --- what a tool gives is not what the next one takes ------------------------------

_DRAWING = {"drawing": "gate post 7", "height": "5 ft 4 in", "section": "3 in square", "timber": "oak, seasoned"}
_TIMBERS: Mapping[str, Json] = {"OAK_SEASONED": {"code": "OAK_SEASONED", "cut_lengths_mm": [1200, 1500, 1800, 2400]}}
_TIMBER = Task(
    name="argument_transformation",
    system=(
        "You order timber. Drawings are in feet and inches (1 ft = 12 in, 1 in = 25.4 mm), the yard takes millimetres "
        "rounded to whole ones, and timbers by codes such as PINE_GREEN. The length is the shortest that the yard cuts "
        "and that the height fits in. End with report_quote."
    ),
    user="Have the yard quote six posts for drawing 'gate post 7', and report the quote in euros.",
    tools=(
        spec("get_drawing", "The measures of a drawing.", drawing=text("Name of the drawing.")),
        spec("get_timber", "What lengths a timber is cut in.", code=text("WOOD_STATE, in capitals.")),
        spec(
            "request_quote",
            "Has the yard quote posts.",
            code=text("Code of the timber."),
            length_mm=integer("Length as the yard cuts it."),
            section_mm=integer("Width of the square section."),
            pieces=integer("How many."),
        ),
        spec(
            "report_quote",
            "Ends the task: reports the quote.",
            quote=text("Number of the quote."),
            height_mm=integer("Height of the post on the drawing, in millimetres."),
            length_mm=integer("Length that is cut, in millimetres."),
            price=text("The price in euros, as in 12.50."),
        ),
    ),
    terminal="report_quote",
    check=every(
        is_name("quote", "Q-556"),
        is_number("height_mm", 1626, within=1),  # 64 in are 1625.6 mm
        is_number("length_mm", 1800),
        is_number("price", 213.26),
    ),
    ideal=(
        call("get_drawing", drawing="gate post 7"),
        call("get_timber", code="OAK_SEASONED"),
        call("request_quote", code="OAK_SEASONED", length_mm=1800, section_mm=76, pieces=6),
        call("report_quote", quote="Q-556", height_mm=1626, length_mm=1800, price="213.26"),
    ),
)


class _Yard:
    """Returns quotes for exactly the requested sizes, if it can cut them."""

    def drawing(self, drawing: str) -> Json:
        if "gate post 7" not in drawing.casefold():
            raise ToolResolutionError(f"no drawing {drawing!r}; there is: gate post 7")
        return _DRAWING

    def timber(self, code: str) -> Json:
        if code not in _TIMBERS:
            raise ValueError(f"{code!r} is no code: it has to be WOOD_STATE, as PINE_GREEN or OAK_SEASONED")
        return _TIMBERS[code]

    def quote(self, code: str, length_mm: int, section_mm: int, pieces: int) -> Json:
        self.timber(code)
        if length_mm not in {1200, 1500, 1800, 2400}:
            raise ValueError(f"length_mm {length_mm} is not cut; see the timber's cut_lengths_mm")
        if not 10 <= section_mm <= 300:
            raise ValueError(f"section_mm {section_mm} cannot be sawn: it is in millimetres, 10 to 300")
        # By volume, and with a number of its own for each quote.
        price = length_mm * section_mm * section_mm * pieces // 2925
        number = (length_mm + section_mm * pieces) % 900 + 100
        asked = {"length_mm": length_mm, "section_mm": section_mm, "pieces": pieces}
        return {"quote": f"Q-{number}", **asked, "price_cents": price}


def _timber(_: int) -> ScenarioState:
    yard = _Yard()
    quote = always(yard.quote("OAK_SEASONED", 1800, 76, 6))
    return _TIMBER.world({"get_drawing": always(_DRAWING), "get_timber": yard.timber, "request_quote": quote})


def _timber_stateful(_: int) -> ScenarioState:
    yard = _Yard()
    return _TIMBER.world({"get_drawing": yard.drawing, "get_timber": yard.timber, "request_quote": yard.quote})


# --- what the sources say ----------------------------------------------------------

_SOURCES: Mapping[str, Json] = {
    "S1": "Deed of 1874: the mill at Fallow Brook was built for Hanna Orre. It had two wheels.",
    "S2": "Newspaper of 1931: last night a fire took the roof of the Fallow Brook mill. Nobody was hurt.",
    "S3": (
        "Travel guide of 1978: the mill, built in 1869, burned down in 1930. [Errata slip: for 1869 read 1874; for "
        "1930 read 1931.]"
    ),
    "S4": "Letter of 1902: my uncle Per Orre grinds rye at the brook now, as his mother did.",
}
_INDEX: Json = [
    {"source": "S1", "kind": "deed"},
    {"source": "S2", "kind": "newspaper"},
    {"source": "S3", "kind": "travel guide"},
    {"source": "S4", "kind": "letter"},
]
_UNSAID = (
    *("unknown", "none", "n/a", "no architect", "no source"),
    *(f"not {word}" for word in ("known", "stated", "mentioned", "mention", "named", "name", "specified", "given")),
)
_MILL = Task(
    name="grounded_synthesis",
    system=(
        "You write entries for a catalogue of monuments. Say only what the sources say. Where they contradict each "
        "other, a document of the time outweighs a later one. Where no source says a thing, write unknown. End with "
        "submit_entry."
    ),
    user=(
        "Write the entry for the mill at Fallow Brook: when it was built and for whom, when it burned, how many people "
        "were hurt, its architect, and which sources you used. Read every source."
    ),
    tools=(
        spec("list_sources", "The sources on a monument.", monument=text("Name of the monument.")),
        spec("read_source", "The text of a source.", source=text("Id of the source.")),
        spec(
            "submit_entry",
            "Ends the task: submits the entry.",
            built=integer("Year."),
            built_for=text("Name."),
            burned=integer("Year."),
            people_hurt=text("A number, or unknown."),
            architect=text("Name, or unknown."),
            sources=texts("Ids of the sources that were read."),
        ),
    ),
    terminal="submit_entry",
    required=("list_sources", "read_source"),
    check=every(
        is_number("built", 1874),
        says("built_for", "Hanna Orre"),
        never_says("built_for", "Per Orre"),
        is_number("burned", 1931),
        says("people_hurt", ("0", "zero", "none", "nobody", "no one", "no people", "no injuries")),
        says("architect", _UNSAID),
        never_says("architect", "Orre"),
        is_set("sources", *_SOURCES),
    ),
    ideal=(
        call("list_sources", monument="mill at Fallow Brook"),
        *(call("read_source", source=source) for source in _SOURCES),
        call(
            "submit_entry", built=1874, built_for="Hanna Orre", burned=1931, people_hurt="0", architect="unknown",
            sources=[*_SOURCES],
        ),
    ),
)  # fmt: skip


def _source(source: str) -> Json:
    return _SOURCES.get(source.strip().upper(), f"There is no source {source}.")


class _ReadingRoom:
    """Returns sources by request, and records which were read."""

    def __init__(self) -> None:
        self._listed = False
        self._unread = set(_SOURCES)

    def index(self, monument: str) -> Json:
        if "fallow brook" not in monument.casefold():
            raise ToolResolutionError(f"nothing is kept on {monument!r}")
        self._listed = True
        return _INDEX

    def read(self, source: str) -> Json:
        if not self._listed or source.strip().upper() not in _SOURCES:
            raise ToolResolutionError(f"no source {source!r} is lent; list_sources gives the ids")
        self._unread.discard(source.strip().upper())
        return _SOURCES[source.strip().upper()]

    def all_read(self, _: object) -> str | None:
        return f"sources that were never read: {', '.join(sorted(self._unread))}" if self._unread else None


def _mill(_: int) -> ScenarioState:
    return _MILL.world({"list_sources": always(_INDEX), "read_source": _source})


def _mill_stateful(_: int) -> ScenarioState:
    room = _ReadingRoom()
    return _MILL.world({"list_sources": room.index, "read_source": room.read}, room.all_read)


_ADVANCED = frozenset({"advanced_reasoning"})
_STATEFUL = frozenset({"advanced_reasoning", "stateful"})

SCENARIOS = (
    Scenario("argument_transformation", "Feet, inches, codes, cents.", _ADVANCED, 4, _timber),
    Scenario("grounded_synthesis", "Four sources, one of them wrong, one thing unsaid.", _ADVANCED, 6, _mill),
    Scenario("argument_transformation_stateful", "A quote of what was asked.", _STATEFUL, 4, _timber_stateful),
    Scenario("grounded_synthesis_stateful", "Each source is read.", _STATEFUL, 6, _mill_stateful),
)
