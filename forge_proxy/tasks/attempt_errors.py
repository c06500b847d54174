"""The errors that end an attempt before its checks."""

from __future__ import annotations

from forge_proxy.core.errors import EmptyAnswer, ForgeError, ToolCallInvalid, ToolChoiceUnsatisfied
from forge_proxy.core.tasks.responses import ResponseCutOff, ResponseInvalid

MODEL_ERRORS = (ResponseInvalid, ResponseCutOff, EmptyAnswer, ToolCallInvalid, ToolChoiceUnsatisfied)
"""Errors of what a model has written: another attempt may differ."""


class AttemptError(ForgeError):
    """An attempt cannot continue. `is_final`: no further attempt would differ."""

    def __init__(self, reason: str, *, is_final: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.is_final = is_final
