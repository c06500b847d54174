"""Comparison of suppliers in a small context: early results are compacted before they are needed, unless noted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from forge_proxy.core.jsontypes import Json, JsonObject
from forge_proxy.core.messages import ToolCall
from forge_proxy.core.workflow.errors import ToolResolutionError
from forge_proxy.evals.scenario import Scenario, ScenarioState
from forge_proxy.evals.scenarios.facts import every, is_name, is_number, is_set
from forge_proxy.evals.scenarios.task import Task, call, integer, number, spec, text, texts

# --- five audits -------------------------------------------------------------------

_VISIT = (
    "The halls were clean, the foreman answered every question, and the books were shown without delay. "
    "Two cars stood in the yard."
)
_AUDITS: Mapping[str, tuple[str, float, str]] = {
    "Aldous": ("Aldous", 1.4, "valid"),
    "Brandt": ("Brandt", 3.9, "expired"),
    "Corvin": ("Corvin", 0.8, "valid"),
    "Dunmore": ("Dunmore", 2.2, "expired"),
    "Eklund": ("Eklund", 1.1, "valid"),
}


def _audit(supplier: str) -> str:
    name, defects, certificate = _AUDITS[supplier]
    facts = f"Defects: {defects} percent of the parts. Certificate: {certificate}."
    return f"Audit of {name}, for the file. {_VISIT} {facts} {_VISIT} The auditors thank {name} for the coffee."


def _noted() -> Sequence[ToolCall]:
    calls: list[ToolCall] = []
    notes = "none yet"
    for name, (_, defects, certificate) in _AUDITS.items():
        calls.append(call("audit_supplier", supplier=name, notes=notes))
        line = f"{name} {defects} {certificate}"
        notes = line if notes == "none yet" else f"{notes}; {line}"
    return calls


_FIVE = Task(
    name="phase2_compaction",
    system="You audit suppliers. Older results vanish: keep their facts in notes. End with submit_audit.",
    user="Audit Aldous, Brandt, Corvin, Dunmore, Eklund. Who has most and fewest defects, whose certificates expired?",
    tools=(
        spec(
            "audit_supplier", "Audits one.", supplier=text("Name."), notes=text("Defects and certificates so far.")
        ),
        spec(
            "submit_audit",
            "Ends the task.",
            most_defects=text("Name."),
            most_percent=number("Percent."),
            fewest_defects=text("Name."),
            expired=texts("Names."),
        ),
    ),
    terminal="submit_audit",
    required=("audit_supplier",),
    check=every(
        is_name("most_defects", "Brandt"),
        is_number("most_percent", 3.9),
        is_name("fewest_defects", "Corvin"),
        is_set("expired", "Brandt", "Dunmore"),
    ),
    ideal=(
        *_noted(),
        call(
            "submit_audit", most_defects="Brandt", most_percent=3.9, fewest_defects="Corvin",
            expired=["Brandt", "Dunmore"],
        ),
    ),
)  # fmt: skip


class _Auditors:
    """Record which suppliers were audited."""

    def __init__(self) -> None:
        self._visited: set[str] = set()

    def audit(self, supplier: str, notes: str) -> str:
        name = supplier.strip().capitalize()
        if name not in _AUDITS:
            raise ToolResolutionError(f"no supplier {supplier!r}; there are: {', '.join(_AUDITS)}")
        self._visited.add(name)
        return _audit(name)

    def all_visited(self, _: JsonObject) -> str | None:
        missing = sorted(set(_AUDITS) - self._visited)
        return f"suppliers that were never audited: {', '.join(missing)}" if missing else None


def _lenient(supplier: str, notes: str) -> str:
    name = supplier.strip().capitalize()
    return _audit(name) if name in _AUDITS else f"Nothing is known of {supplier}."


def _five(_: int) -> ScenarioState:
    return _FIVE.world({"audit_supplier": _lenient})


def _five_stateful(_: int) -> ScenarioState:
    auditors = _Auditors()
    return _FIVE.world({"audit_supplier": auditors.audit}, auditors.all_visited)


# --- three, in depth ---------------------------------------------------------------

_CLAUSES = (
    "The parties shall meet once a year in the office of the buyer and settle what is unclear between them. "
    "Goods are packed as is customary, and the packing goes back to the supplier at his own cost. "
    "Should a part of this contract be void, the rest of it stays in force, and the parties shall mend that part. "
) * 2
_OFFERS: Mapping[str, tuple[str, float, int]] = {
    "Farrow": ("CT-411", 6.40, 800),
    "Gessner": ("CT-438", 6.95, 650),
    "Holt": ("CT-452", 5.80, 300),
}
"""Contract, price per piece and weekly capacity by supplier."""
_INCIDENTS: Mapping[str, Sequence[str]] = {
    "CT-411": ("a late delivery in March", "a batch with cracks in May", "a late delivery in June"),
    "CT-438": ("a late delivery in February",),
    "CT-452": (),
}
_DEEP = Task(
    name="supplier_deep_dive",
    system=(
        "You award an order. Look at the contract and the incidents of every supplier. Fit is who can deliver the "
        "pieces and had at most one incident; of those that are fit, the cheapest gets it. End with award_order."
    ),
    user="Award the order for 500 pieces a week: to Farrow, Gessner or Holt?",
    tools=(
        spec("get_contract", "The contract of a supplier.", supplier=text("Name of the supplier.")),
        spec("get_incidents", "What went wrong under a contract.", contract_id=text("Id of the contract.")),
        spec(
            "award_order",
            "Ends the task: awards the order.",
            supplier=text("Who gets it."),
            contract_id=text("Id of the contract."),
            weekly_cost=number("What 500 pieces cost."),
            incidents=integer("How many incidents that supplier had."),
        ),
    ),
    terminal="award_order",
    required=("get_contract", "get_incidents"),
    check=every(
        is_name("supplier", "Gessner"),
        is_name("contract_id", "CT-438"),
        is_number("weekly_cost", 3475),
        is_number("incidents", 1),
    ),
    ideal=(
        call("get_contract", supplier="Farrow"),
        call("get_incidents", contract_id="CT-411"),
        call("get_contract", supplier="Gessner"),
        call("get_incidents", contract_id="CT-438"),
        call("get_contract", supplier="Holt"),
        call("get_incidents", contract_id="CT-452"),
        call("award_order", supplier="Gessner", contract_id="CT-438", weekly_cost=3475, incidents=1),
    ),
)


class _Purchasing:
    """Returns incidents only of contracts that were opened."""

    def __init__(self) -> None:
        self._opened: set[str] = set()
        self._looked_at: set[str] = set()

    def contract(self, supplier: str) -> str:
        name = supplier.strip().capitalize()
        if name not in _OFFERS:
            raise ToolResolutionError(f"no supplier {supplier!r}; there are: {', '.join(_OFFERS)}")
        contract, price, weekly = _OFFERS[name]
        self._opened.add(contract)
        return f"Contract {contract} with {name}: {price:.2f} a piece, at most {weekly} pieces a week. {_CLAUSES}"

    def incidents(self, contract_id: str) -> Json:
        contract = contract_id.strip().upper()
        if contract not in self._opened:
            raise ToolResolutionError(f"no contract {contract_id!r} was opened; get_contract gives its id")
        self._looked_at.add(contract)
        return {"contract_id": contract, "incidents": [*_INCIDENTS[contract]]}

    def all_compared(self, _: JsonObject) -> str | None:
        missing = sorted(name for name, (contract, _, _) in _OFFERS.items() if contract not in self._looked_at)
        return f"suppliers whose incidents were never looked at: {', '.join(missing)}" if missing else None


def _deep(_: int) -> ScenarioState:
    office = _Purchasing()
    return _DEEP.world({"get_contract": office.contract, "get_incidents": office.incidents}, office.all_compared)


_REASONING = frozenset({"compaction", "reasoning"})
_STATEFUL = frozenset({"compaction", "reasoning", "stateful"})

SCENARIOS = (
    Scenario("phase2_compaction", "Five audits, more than can be kept.", _REASONING, 6, _five, budget_tokens=925),
    Scenario(
        "phase2_compaction_stateful",
        "The same, and all five are visited.",
        _STATEFUL,
        6,
        _five_stateful,
        budget_tokens=925,
    ),
    Scenario("supplier_deep_dive", "Three suppliers, two records each.", _STATEFUL, 7, _deep, budget_tokens=1060),
)
