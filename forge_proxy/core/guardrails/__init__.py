"""The guardrails: which tools are offered, what is streamed, which fault a reply has, and how it is corrected.

`open_turn` creates a turn, a `StreamGate` takes the deltas of each attempt, and `judge` returns the verdict. All of it
is pure; the attempts are run by `engine/attempts.py`.
"""

from forge_proxy.core.guardrails.judge import judge, judge_failed_retry, judge_unparsed_call, without_corrections
from forge_proxy.core.guardrails.policy import GuardPolicy, Switches, read_switches
from forge_proxy.core.guardrails.stream_gate import StreamGate
from forge_proxy.core.guardrails.suppress_calls import CallSuppressor
from forge_proxy.core.guardrails.turn import Outcome, Turn, open_turn
from forge_proxy.core.guardrails.verdict import Accept, FinalAnswer, GiveUp, Intervention, Retry, Verdict

__all__ = [
    "Accept",
    "CallSuppressor",
    "FinalAnswer",
    "GiveUp",
    "GuardPolicy",
    "Intervention",
    "Outcome",
    "Retry",
    "StreamGate",
    "Switches",
    "Turn",
    "Verdict",
    "judge",
    "judge_failed_retry",
    "judge_unparsed_call",
    "open_turn",
    "read_switches",
    "without_corrections",
]
