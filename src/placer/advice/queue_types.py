"""The nouns of a plan for the queue: what a person is told about every pending job."""

from __future__ import annotations

import enum

import msgspec

from placer.advice import types
from placer.placement import types as plan

DAY = 86_400


class Choice(enum.StrEnum):
    """What the plan decides about a job."""

    START = "start"
    WAIT = "wait"


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """One pending job, or one pending array: `tasks` of `of` start.

    `placement` holds the nodes of everything that starts. `start` says when what waits could start; None = not told.
    """

    id: str
    alias: str | None = None
    name: str = ""
    gpus: int | None = None  # of one task, None = the request could not be read
    priority: int = 0
    choice: Choice
    reason: str
    placement: plan.Placement | None = None
    start: types.Start | None = None
    tasks: int = 0
    of: int = 1


class Options(msgspec.Struct, frozen=True):
    """How a plan is made.

    `tiers`: a job of higher priority is worth more than all of lower priority; else a GPU is worth its job's priority.
    `reserve`: for so many waiting jobs of highest priority the nodes are kept where they could start first. `horizon`:
    starts are told for so many seconds ahead.
    """

    limits: plan.SolveLimits = plan.SolveLimits(gap=1e-4)
    tiers: bool = False
    reserve: int = 0
    horizon: int = 7 * DAY
    oversubscription: tuple[tuple[str, float], ...] = ()
    nic_gbits: float | None = None


class QueuePlan(msgspec.Struct, frozen=True, kw_only=True):
    """Every pending job, the value of what starts, and that of the rule of thumb (best fit by priority and size).

    `solve` is in the sense of the search: its objective is minus `value`, its bound minus the greatest value possible.
    """

    jobs: tuple[Decision, ...]
    value: float
    greedy_value: float
    solve: plan.SolveResult
    gpus_started: int = 0
    gpus_free: int = 0
    notes: tuple[str, ...] = ()
