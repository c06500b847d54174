"""`/admin/v1/status` and `/admin/v1/models`: the state of the daemon, and what is known about each model."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field

from forge_proxy._version import __version__
from forge_proxy.api.admin.backend import BackendEndpoints, BackendInfo
from forge_proxy.api.admin.budget import BudgetInfo, to_budget_info
from forge_proxy.api.admin.former_names import former_field
from forge_proxy.api.admin.guardrails import GuardrailsInfo, to_guardrails_info
from forge_proxy.api.admin.services import AdminServices
from forge_proxy.core.background import Obstacle
from forge_proxy.core.capability import CapabilityCard
from forge_proxy.core.queueing import FairQueue
from forge_proxy.core.store_errors import StoreUnavailable
from forge_proxy.engine.memory import MEGABYTE
from forge_proxy.jobs.service import Jobs


class BackgroundInfo(BaseModel):
    """Running and waiting background requests."""

    running: int
    waiting: int
    reserved_slots: int | None = Field(
        description="Slots that they leave free while an interactive client is active; null if the slots are unknown."
    )
    blocked_by: Obstacle | None = Field(
        description="Why they wait: all requests are paused, `jobs.hours`, interactive requests wait, all slots are"
        " used, the free ones are reserved, or another model is loaded."
    )


class QueueInfo(BaseModel):
    """Running and waiting requests."""

    slots: int | None = Field(description="Requests that are sent to it at a time; null if unlimited or not known yet.")
    running: int = Field(description="Requests that run, background requests included.")
    waiting: int = Field(description="Interactive requests that wait.")
    limit: int = Field(description="Interactive requests that may wait; more are a 429.")
    paused: bool = Field(
        description="Whether all requests wait because the model server is loading, stopping or switching."
    )
    background: BackgroundInfo


class MemoryNow(BaseModel):
    """Memory of request bodies, buffered responses and unread output."""

    used_mb: float
    limit_mb: float = Field(description="`server.memory_mb`.")


class GpuInfo(BaseModel):
    """One graphics card."""

    name: str
    vram_mb: int | None
    free_mb: int | None = Field(description="Free memory when the daemon started.")


class HardwareInfo(BaseModel):
    """The machine."""

    source: Literal["nvidia-smi", "nvml", "amd", "apple", "none"]
    gpus: list[GpuInfo]
    vram_mb: int | None
    ram_mb: int | None
    cores: int
    reason: str = Field(description="How the machine was examined.")
    because = former_field("reason", str)


class JobQueueInfo(BaseModel):
    """A queue of jobs."""

    running: int = Field(description="Phases that are being executed.")
    waiting: int = Field(description="Phases that wait for one of them to end.")
    limit: int = Field(description="The largest number of running phases.")


class JobsNow(BaseModel):
    """The jobs of the daemon."""

    scheduler: str = Field(description="What starts the phases of jobs: `local` or `temporal`.")
    queues: dict[str, JobQueueInfo]
    unfinished: dict[str, int] | None = Field(
        description="The number of jobs that have not ended, by status; null if the store is not open."
    )


class StatusInfo(BaseModel):
    """The state of the daemon."""

    version: str
    uptime_seconds: float
    backend: BackendInfo
    budget: BudgetInfo
    queue: QueueInfo
    memory: MemoryNow
    guardrails: GuardrailsInfo
    hardware: HardwareInfo
    jobs: JobsNow | None = Field(description="Null if the daemon has no job service.")


class TemplateInfo(BaseModel):
    """What was learned from a chat template."""

    form: dict[str, Any] | None = Field(description="The form of the model's calls: its shape and its literals.")
    failure: str = Field(description="Why no form was learned; empty if one was.")
    detail: str = Field(description="What the template or its renderer reported.")
    digest: str = Field(description="Identifies the template.")


class CapabilityInfo(BaseModel):
    """The capabilities of one model. Null means that the self-test could not determine the value."""

    model: str
    tools: Literal["native", "prompt"] = Field(description="How tools are described to the model.")
    reason: str = Field(description="The reason why they are described that way.")
    calls: bool = Field(description="Whether the model made a valid call with tools described that way.")
    markup: str | None = Field(
        description="The form in which the model writes calls as text; null if the server parses them."
    )
    tools_reach_prompt: bool | None = Field(
        description="Whether the chat template renders the request's tools into the prompt."
    )
    required: bool | None = Field(description="Whether `tool_choice: required` leads to a call.")
    parallel: bool | None = Field(description="Whether the model made two calls in one response.")
    prefix_cache: bool | None = Field(description="Whether a repeated prompt is read from the prefix cache.")
    constraint: Literal["schema", "tool_choice", "none"] | None = Field(
        description="What limits the model to calls of the offered tools: their schema, `tool_choice`, or nothing."
    )
    template: TemplateInfo | None = Field(
        description="What was learned from the model's chat template, if it was read."
    )
    because = former_field("reason", str)


class ModelInfo(BaseModel):
    """One model that is served."""

    id: str
    budget: BudgetInfo
    capabilities: CapabilityInfo | None = Field(description="The results of the self-test, if there was one.")


class ModelInfoList(BaseModel):
    """The models that are served."""

    data: list[ModelInfo]


class StatusEndpoints:
    """The endpoints of `/status` and `/models`."""

    def __init__(self, parts: AdminServices) -> None:
        self._parts = parts
        self._started_at = parts.clock.now()
        self._backend = BackendEndpoints(parts)

    async def status(self) -> StatusInfo:
        """Show the daemon, its model server, budget, queue and the machine."""
        parts, budgets = self._parts, self._parts.engine.budgets
        return StatusInfo(
            version=__version__,
            uptime_seconds=round(parts.clock.now() - self._started_at, 3),
            backend=await self._backend.read(),
            budget=to_budget_info(await budgets.of(), budgets.policy),
            queue=_to_queue_info(parts.engine.queue, parts.clock.now()),
            memory=MemoryNow(
                used_mb=round(parts.memory.used / MEGABYTE, 3), limit_mb=round(parts.memory.limit / MEGABYTE, 3)
            ),
            guardrails=to_guardrails_info(parts.engine.policies.guardrails),
            hardware=await self._hardware(),
            jobs=None if parts.jobs is None else await _read_jobs(parts.jobs),
        )

    async def models(self) -> ModelInfoList:
        """List the models, each with its budget."""
        engine = self._parts.engine
        policy_of = engine.budgets.policy_of
        listed = await engine.models.list()
        budgets = [(card.id, await engine.budgets.of(card.id, card.window)) for card in listed]
        cards = engine.capabilities.cards
        return ModelInfoList(
            data=[
                ModelInfo(
                    id=name,
                    budget=to_budget_info(budget, policy_of(name)),
                    capabilities=_to_capability_info(cards.get(name)),
                )
                for name, budget in budgets
            ]
        )

    async def _hardware(self) -> HardwareInfo:
        found = await self._parts.hardware.profile()
        return HardwareInfo(
            source=found.source,
            gpus=[GpuInfo(name=gpu.name, vram_mb=gpu.vram_mb, free_mb=gpu.free_mb) for gpu in found.gpus],
            vram_mb=found.vram_mb,
            ram_mb=found.ram_mb,
            cores=found.cores,
            reason=found.reason,
        )


async def _read_jobs(jobs: Jobs) -> JobsNow:
    try:
        unfinished = await jobs.count_unfinished()
    except StoreUnavailable:  # the status must not depend on the store
        unfinished = None
    now = jobs.status()
    queues = {
        name: JobQueueInfo(running=queue.running, waiting=queue.waiting, limit=queue.limit)
        for name, queue in now.queues.items()
    }
    return JobsNow(scheduler=now.name, queues=queues, unfinished=None if unfinished is None else {**unfinished})


def _to_queue_info(queue: FairQueue, now: float) -> QueueInfo:
    return QueueInfo(
        slots=queue.slots,
        running=queue.running,
        waiting=queue.waiting,
        limit=queue.limit,
        paused=queue.paused,
        background=BackgroundInfo(
            running=queue.background_running,
            waiting=queue.background_waiting,
            reserved_slots=None if queue.slots is None else queue.policy.reserve(queue.slots),
            blocked_by=queue.find_obstacle(now),
        ),
    )


def _to_capability_info(card: CapabilityCard | None) -> CapabilityInfo | None:
    return CapabilityInfo.model_validate(card.as_json()) if card else None
