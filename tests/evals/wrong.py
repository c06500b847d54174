"""What a terminal call may not say: for each scenario, arguments of the ideal call changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from forge_proxy.core.jsontypes import Json

Changes = Sequence[Mapping[str, Json]]

HOURS: Changes = [{"closes": "21:30"}, {"opens": "17:30"}, {"opens": "7:30 p.m."}, {"place": "Mill Library"}]
LEVEL: Changes = [
    {"mean_cm": 211},
    {"peak_cm": "about 200"},
    {"trend": "falling"},
    {"trend": "not rising"},
    {"station": "Elm"},
]
SAILINGS: Changes = [{"sailings": 5}, {"sailings": "5 or 6"}, {"sailings": None}, {"last": "2:10"}]
PART: Changes = [{"part": "BB-68"}, {"in_stock": "17"}, {"shelf": "C5"}]
LICENCE: Changes = [{"entity_id": 420}, {"entity_id": [24, 42]}, {"licence": "L-226"}, {"ends": "2033-02-27"}]
BUDGET: Changes = [{"left": 48000}, {"left": 18.35}, {"project": "WREN"}]
ROUTE: Changes = [{"cause": "checkout"}, {"team": "Payments"}, {"deployment": "D-879"}, {"severity": "medium"}]
OFFSET: Changes = [{"offset_mm": 2.5}, {"instrument": "Gull Point"}, {"calibrated_by": "O. Fennimore"}]
DECLINED: Changes = [
    {"message": "Tomorrow one euro will buy 164 yen."},
    {"message": "I cannot say for sure, but about 164 yen."},
    {"message": "It will rise."},
    {"message": ""},
]
TAX: Changes = [{"tax": 147}, {"tax": 188160}, {"parcel": "W-1207"}, {"valued_as": "W-5508"}]
UNPAID: Changes = [
    {"ref": "BK-312"},
    {"guest": "Tove Lind"},
    {"owed_eur": 5000},
    {"checked": ["BK-301", "BK-305"]},
    {"checked": "BK-301, BK-305, BK-312 and BK-313"},
]
QUOTE: Changes = [{"quote": "Q-947"}, {"height_mm": 64}, {"length_mm": 1500}, {"price": "21326"}]
ENTRY: Changes = [
    {"built": 1869},
    {"built_for": "Per Orre"},
    {"burned": 1930},
    {"people_hurt": "unknown"},
    {"architect": "Hanna Orre"},
    {"sources": ["S1", "S2"]},
]
CARGO: Changes = [{"manifest": "V-58"}, {"declared": 297}, {"counted": 320}, {"missing": 32}]
AUDIT: Changes = [
    {"most_defects": "Dunmore"},
    {"most_percent": 39},
    {"fewest_defects": "Eklund"},
    {"expired": ["Brandt"]},
    {"expired": "Brandt, Dunmore, Aldous"},
]
CASE: Changes = [
    {"patient_id": "P-33"},
    {"mineral": "lead"},
    {"level": 16},
    {"source": "dust in the workshop"},
    {"remedy": "selmarin"},
    {"dose_mg": 68},
]

WRONG: dict[str, Changes] = {
    "basic_2step": HOURS,
    "basic_2step_stateful": HOURS,
    "basic_2step_stateful_tre": [*HOURS, {"place": "Duck Pond"}],
    "sequential_3step": LEVEL,
    "sequential_3step_stateful": LEVEL,
    "error_recovery": SAILINGS,
    "error_recovery_stateful": SAILINGS,
    "tool_selection": PART,
    "tool_selection_stateful": PART,
    "argument_fidelity": LICENCE,
    "argument_fidelity_stateful": LICENCE,
    "sequential_reasoning": BUDGET,
    "sequential_reasoning_stateful": BUDGET,
    "conditional_routing": ROUTE,
    "conditional_routing_stateful": ROUTE,
    "data_gap_recovery": OFFSET,
    "data_gap_recovery_stateful": OFFSET,
    "relevance_detection": DECLINED,
    "relevance_detection_stateful": DECLINED,
    "data_gap_recovery_extended": TAX,
    "data_gap_recovery_extended_stateful": TAX,
    "inconsistent_api_recovery": UNPAID,
    "inconsistent_api_recovery_stateful": UNPAID,
    "argument_transformation": QUOTE,
    "argument_transformation_stateful": QUOTE,
    "grounded_synthesis": ENTRY,
    "grounded_synthesis_stateful": ENTRY,
    "compaction_stress": CARGO,
    "compaction_stress_stateful": CARGO,
    "phase2_compaction": AUDIT,
    "phase2_compaction_stateful": AUDIT,
    "inventory_audit": [{"corrected": ["canvas"]}, {"corrected": "canvas, oil tins and rope"}, {"difference": 9}],
    "supplier_deep_dive": [
        {"supplier": "Holt"},
        {"contract_id": "CT-411"},
        {"weekly_cost": 6.95},
        {"incidents": 0},
    ],
    "compaction_chain_baseline": CASE,
    "compaction_chain_p1": CASE,
    "compaction_chain_p2": CASE,
    "compaction_chain_p3": CASE,
    # The field of the report depends on the run's number; that of run 0 is `summary`.
    "quick_two_step": [{"summary": "The weather is fine."}, {"summary": ""}],
    "quick_required_steps": [{"summary": "The price is 167."}, {"summary": "I am done."}],
    "quick_three_lookups": [{"summary": "The weather is sunny. The population is 277."}],
    "quick_error_recovery": [{"summary": "unknown city"}],
    "quick_tool_selection": [{"summary": "anna"}, {"summary": "ann@tea.com"}],
    "quick_passed_on": [{"summary": "The order is cancelled."}],
    "quick_typed_arguments": [{"summary": "Done."}],
    "quick_no_tool": [{"message": "Knock, knock."}, {"message": "I have no tool, but 42."}],
    "quick_formal_choice": [{"city": "Oslo"}, {"days": "2"}, {"subject": "lunch"}],
    "quick_formal_steps": [{"email": "bob@acme.com"}, {"subject": ""}],
    "quick_formal_words": [{"message": "It is booked."}],
}
