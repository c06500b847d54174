"""`/admin/v1/text-answers`: what was learned of each model's bare text (DESIGN §4), and how to have it forgotten."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

from forge_proxy.core.guardrails import GuardPolicy
from forge_proxy.core.guardrails.text_history import TextResponseHistory
from forge_proxy.engine.live_value import LiveValue


class TextResponseStats(BaseModel):
    """What was learned of one model."""

    model: str
    texts: int = Field(description="Plain-text responses where a tool call was possible.")
    nudges: int = Field(description="The number of them that were retried.")
    calls: int = Field(description="The number of these retries that brought a call.")
    share: float | None = Field(description="calls / nudges.")
    now: Literal["nudge", "accept"] = Field(description="What happens to such text now.")


class TextResponseStatsList(BaseModel):
    """What was learned of every model."""

    object: Literal["list"] = "list"
    text_answers: Literal["auto", "nudge", "accept"]
    data: list[TextResponseStats]


class TextResponseEndpoints:
    """The endpoints. `policy` is the daemon's; one request can narrow it for itself."""

    def __init__(self, learned: TextResponseHistory, policy: LiveValue[GuardPolicy]) -> None:
        self._learned = learned
        self._policy = policy

    async def read(self) -> TextResponseStatsList:
        """What was learned of each model since the start."""
        policy = self._policy.now
        data = [
            TextResponseStats(
                model=model,
                texts=figures.texts,
                nudges=figures.nudges,
                calls=figures.calls,
                share=figures.share,
                now=self._learned.effective_setting(policy, model),
            )
            for model, figures in self._learned.records.items()
        ]
        return TextResponseStatsList(text_answers=policy.text_answers, data=data)

    async def forget_all(self) -> TextResponseStatsList:
        """Begin anew with all models."""
        self._learned.forget()
        return await self.read()

    async def forget(self, name: str) -> TextResponseStatsList:
        """Begin anew with one model."""
        self._learned.forget(name)
        return await self.read()
