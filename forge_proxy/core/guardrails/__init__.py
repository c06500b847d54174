"""The guardrails: what is offered, what may leave, what is wrong with a reply, and what is said to the model about it.

`open_turn` begins, a `Gate` takes each attempt's deltas, `judge` gives the verdict. All of it is pure; the loop that
asks again is `engine/answer.py`.
"""

from forge_proxy.core.guardrails.forbid import CallsForbidden
from forge_proxy.core.guardrails.gate import Gate
from forge_proxy.core.guardrails.judge import judge, judge_failed_retry, judge_unread, without_corrections
from forge_proxy.core.guardrails.policy import GuardPolicy, Switches, read_switches
from forge_proxy.core.guardrails.turn import Outcome, Turn, open_turn
from forge_proxy.core.guardrails.verdict import Accept, GiveUp, Mark, Retry, Settled, Verdict

__all__ = [
    "Accept",
    "CallsForbidden",
    "Gate",
    "GiveUp",
    "GuardPolicy",
    "Mark",
    "Outcome",
    "Retry",
    "Settled",
    "Switches",
    "Turn",
    "Verdict",
    "judge",
    "judge_failed_retry",
    "judge_unread",
    "open_turn",
    "read_switches",
    "without_corrections",
]
