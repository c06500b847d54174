"""The compaction chain: an investigation of ten steps, in contexts that bring compaction to each of its phases.

What a step finds is an argument of a later one, so that the calls, which compaction leaves alone, carry it to the end.
The illness, the substance and the remedy do not exist: nobody knows the answers beforehand.
"""

from __future__ import annotations

from dataclasses import replace

from forge_proxy.core.jsontypes import Json
from forge_proxy.core.workflow.errors import ToolResolutionError
from forge_proxy.evals.scenario import Scenario, ScenarioState
from forge_proxy.evals.scenarios.facts import every, is_name, is_number, says
from forge_proxy.evals.scenarios.task import Does, Task, call, integer, spec, text

_CASE = (
    "Case K-19, opened by the night nurse. Patient: P-330, a woman of forty-four. She came on foot and alone, "
    "complains of cramps and tired wrists since the spring, and has been sent home twice with drops that did not "
    "help. She sleeps badly, eats little and has lost weight. Nobody has yet asked her about her work or about "
    "her household."
)
_HISTORY = (
    "History of P-330. She restores painted tiles in a workshop by the canal, four days a week, with two "
    "colleagues who are well. She neither smokes nor drinks. The cramps come in the evening, at home, and are "
    "worst on days on which she does not work at all. Her wrists grow weak first, then her ankles. She takes no "
    "drugs but the drops she was given."
)
_FINDINGS = (
    "Examination of P-330. A faint green line runs along the gums, which the examiner calls a verdine line and "
    "has seen once before. Both wrists drop when held out. Reflexes at the ankles are slow, the heart and the "
    "lungs are without findings, the belly is soft and a little tender. Weight: 68 kilograms. The examiner asks "
    "for a blood sample."
)
_BLOOD = (
    "Blood of P-330 was taken and stored as sample S-812. The count shows few red cells, many of them with green "
    "granules, which points to a mineral. White cells and platelets are as they should be. The laboratory keeps "
    "the sample for a week and can screen it for one mineral at a time, if it is told the sample and the mineral."
)
_SCREEN = (
    "Screen of sample S-812 for verdine: 61 units, where more than 10 is too much. The measurement was made "
    "twice, by two people, with the same outcome. At this level the body takes it up daily, through food or "
    "drink: dust alone never comes to so much. The laboratory advises that the household be asked what it eats "
    "and drinks from."
)
_HOUSEHOLD = (
    "Household of P-330. Her son, who eats at school, is well. Both drink tap water, which the town tests "
    "monthly. She alone drinks cider each evening, and pours it from a green glazed jug that she bought at a fair "
    "last winter. Plates and pans are of steel. The walls were painted thirty years ago, and the paint is whole."
)
_OBJECT = (
    "Test of the green glazed jug for verdine. Cider that stood in it for an evening took up 940 units a litre, "
    "water took up 15. The glaze was fired too cool and dissolves in what is sour. This is a source that explains "
    "the level. The jug was kept and sealed, and the fair has been told, which will ask the other buyers to bring "
    "theirs back."
)
_GUIDELINE = (
    "Guideline for verdine at a level of 61. Remove the source. Levels from 20 to 50 need rest and milk only; "
    "levels over 50 are treated with colmarin, 9 milligrams for each kilogram of weight, every evening for twelve "
    "days. Selmarin, which sounds alike, is for another mineral and does harm here. Screen the blood again after "
    "a month."
)
_DOSE = (
    "Dose of colmarin for P-330: 68 kilograms by 9 milligrams make 612 milligrams every evening for twelve days. "
    "The pharmacy has it in stock, and nothing that the patient takes speaks against it. The drops she was given "
    "are to be left out from today. The pharmacist has signed the sheet and asks that the case be closed with "
    "this dose."
)
_ORDERS = (
    "Standing orders of the clinic, as they end every sheet: whoever opens a sheet signs it, notes the hour, and puts "
    "it back where it was. Nothing is said to visitors about patients. Lamps are put out when a room is left, windows "
    "are closed at night, and the keys hang behind the desk of the porter. What is missing in the cupboards is "
    "written on the board, and what has been used up is ordered on Monday before noon. Instruments are boiled after "
    "use and laid on the white cloth, never on the grey one. Beds are made before the round, and the round begins "
    "when the bell rings. Letters for the town leave with the boy in the morning, letters for the coast with the "
    "coach. Whoever is last in the kitchen covers the fire. Guests of the house eat at the long table, and are asked "
    "to be quiet in the corridor. The garden may be walked in until dusk, the herbs in it are for the pharmacy alone."
)
_FOUND = (
    "Nothing is known yet but the number of the case.",
    "P-330 has had cramps and tired wrists since spring.",
    "It is worst at home, on days without work.",
    "Her gums have a verdine line, her wrists drop.",
    "Her blood, S-812, has green granules in red cells.",
    "It holds verdine at 61, which comes from food or drink.",
    "She alone drinks cider, from a green glazed jug.",
    "The jug gives off verdine to what is sour.",
    "Over 50 it is colmarin, never selmarin.",
    "For 68 kilograms that makes 612 milligrams.",
)
"""Reasoning that the ideal run repeats before each call, to fill the context."""
_TASK = Task(
    name="compaction_chain",
    system=(
        "You investigate an illness step by step. Older results vanish, so go on from what you found. Guess nothing. "
        "End with close_case."
    ),
    user="Investigate case K-19: what made the patient ill, how badly, from what source, and which dose of what helps?",
    tools=(
        spec("open_case", "Opens a case.", case_id=text("Id.")),
        spec("take_history", "Asks a patient about work and habits.", patient_id=text("Id.")),
        spec("examine_patient", "Examines a patient.", patient_id=text("Id.")),
        spec("take_blood", "Takes and counts blood.", patient_id=text("Id."), suspected=text("The mineral.")),
        spec("screen_sample", "Screens blood for a mineral.", sample_id=text("Id."), mineral=text("Name.")),
        spec("ask_household", "Asks what a patient eats and drinks from.", patient_id=text("Id.")),
        spec("test_object", "Tests a thing for a mineral.", thing=text("What."), mineral=text("Name.")),
        spec("read_guideline", "How a level is treated.", mineral=text("Name."), level=integer("Units.")),
        spec("work_out_dose", "The dose for a patient.", patient_id=text("Id."), remedy=text("Name.")),
        spec(
            "close_case",
            "Ends the task.",
            patient_id=text("Id."),
            mineral=text("What made her ill."),
            level=integer("Units in the blood."),
            source=text("Where it came from."),
            remedy=text("Name."),
            dose_mg=integer("Milligrams each evening."),
        ),
    ),
    terminal="close_case",
    required=(
        *("open_case", "take_history", "examine_patient", "take_blood", "screen_sample"),
        *("ask_household", "test_object", "read_guideline", "work_out_dose"),
    ),
    check=every(
        is_name("patient_id", "P-330"),
        is_name("mineral", "verdine", "verdine poisoning", "mineral verdine", "verdine mineral"),
        is_number("level", 61),
        says("source", ("jug", "jugs")),
        is_name("remedy", "colmarin"),
        is_number("dose_mg", 612),
    ),
    ideal=(
        call("open_case", case_id="K-19"),
        call("take_history", patient_id="P-330"),
        call("examine_patient", patient_id="P-330"),
        call("take_blood", patient_id="P-330", suspected="verdine"),
        call("screen_sample", sample_id="S-812", mineral="verdine"),
        call("ask_household", patient_id="P-330"),
        call("test_object", thing="green glazed jug", mineral="verdine"),
        call("read_guideline", mineral="verdine", level=61),
        call("work_out_dose", patient_id="P-330", remedy="colmarin"),
        call(
            "close_case",
            patient_id="P-330",
            mineral="verdine",
            level=61,
            source="the green glazed jug",
            remedy="colmarin",
            dose_mg=612,
        ),
    ),
)
# The last phase cuts thoughts: only a model that tells some comes to it.
_THINKING = replace(
    _TASK,
    ideal=tuple(
        replace(one, reasoning=f"What I have so far. {' '.join(_FOUND[: place + 1])} Next comes {one.tool}.")
        for place, one in enumerate(_TASK.ideal)
    ),
)


class _Clinic:
    """A clinic whose records can be read only with the results of earlier steps."""

    def __init__(self) -> None:
        self._found = {"k-19"}

    def tools(self) -> dict[str, Does]:
        """Return the expected arguments and the result of each tool."""
        return {
            "open_case": self._step(_CASE, "p-330", case_id="k-19"),
            "take_history": self._step(_HISTORY, patient_id="p-330"),
            "examine_patient": self._step(_FINDINGS, "verdine", patient_id="p-330"),
            "take_blood": self._step(_BLOOD, "s-812", patient_id="p-330", suspected="verdine"),
            "screen_sample": self._step(_SCREEN, "61", sample_id="s-812", mineral="verdine"),
            "ask_household": self._step(_HOUSEHOLD, "jug", patient_id="p-330"),
            "test_object": self._step(_OBJECT, thing="jug", mineral="verdine"),
            "read_guideline": self._step(_GUIDELINE, "colmarin", mineral="verdine", level="61"),
            "work_out_dose": self._step(_DOSE, patient_id="p-330", remedy="colmarin"),
        }

    def _step(self, result: str, finds: str = "", **needs: str) -> Does:
        def do(**args: Json) -> str:
            for name, value in needs.items():
                told = str(args.get(name, "")).casefold()
                if value not in self._found or value not in told:
                    raise ToolResolutionError(f"no findings for {name} {args.get(name)!r}: go on from what was found")
            self._found.add(finds)
            return f"{result} {_ORDERS}"

        return do


def _build(_: int) -> ScenarioState:
    return _TASK.world(_Clinic().tools())


def _build_thinking(_: int) -> ScenarioState:
    return _THINKING.world(_Clinic().tools())


_STATEFUL = frozenset({"stateful"})
_COMPACTING = frozenset({"stateful", "compaction"})

# By the tokens of an ideal run as `core/estimate` counts them, with room for what templates and schemas really take:
# tests/evals/test_compaction_scenarios.py.
SCENARIOS = (
    Scenario("compaction_chain_baseline", "Ten steps, all of them kept.", _STATEFUL, 10, _build),
    Scenario("compaction_chain_p1", "Older results are cut short.", _COMPACTING, 10, _build, budget_tokens=3400),
    Scenario("compaction_chain_p2", "Older results are dropped.", _COMPACTING, 10, _build, budget_tokens=2200),
    Scenario("compaction_chain_p3", "Older thoughts go too.", _COMPACTING, 10, _build_thinking, budget_tokens=2100),
)
