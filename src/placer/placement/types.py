"""The nouns of the searches: what is asked of them and what they answer."""

from __future__ import annotations

import enum
from collections.abc import Callable

import msgspec

Clock = Callable[[], float]
"""A monotonic clock in seconds, given by the caller; the pure rooms read no clock of their own."""


def stopped_clock() -> float:
    """The clock of a caller that sets no limit and wants no timing."""
    return 0.0


class Termination(enum.StrEnum):
    """How a search ended."""

    OPTIMAL = "optimal"  # proven: gap 0
    FEASIBLE = "feasible"  # valid, not proven
    INFEASIBLE = "infeasible"  # proven that nothing fits
    LIMIT = "limit"  # the deadline came first; the answer, if any, is the best found


class SolveLimits(msgspec.Struct, frozen=True):
    """How long and how exactly. `seconds` None = no deadline."""

    seconds: float | None = None
    gap: float = 0.0
    clock: Clock = stopped_clock


class SolveResult(msgspec.Struct, frozen=True):
    """How the answer was found. `bound` <= `objective`; `gap` = (objective - bound) / max(|objective|, 1e-9)."""

    method: str
    termination: Termination
    objective: float | None = None
    bound: float | None = None
    gap: float | None = None
    seconds: float = 0.0


class ScoreTerm(msgspec.Struct, frozen=True):
    """One named part of the objective, as the user sees it. Lower is better unless `why` says otherwise."""

    name: str
    value: float | None  # None = not predicted
    unit: str
    why: str


class RankBinding(msgspec.Struct, frozen=True):
    """Where one rank sits. `gpus` are gres indices of its node, `cpus` OS CPU numbers, `nics` device names."""

    rank: int
    local_rank: int
    gpus: tuple[int, ...] = ()
    cpus: tuple[int, ...] = ()
    memory_nodes: tuple[int, ...] = ()
    nics: tuple[str, ...] = ()


class NodePlacement(msgspec.Struct, frozen=True):
    """One node's part of a job. `gpus` are gres indices in ring order (rank order of the collective)."""

    name: str
    gpus: tuple[int, ...] = ()
    ranks: tuple[RankBinding, ...] = ()


class Placement(msgspec.Struct, frozen=True):
    """A whole job: nodes in rank order."""

    nodes: tuple[NodePlacement, ...] = ()


class Prediction(msgspec.Struct, frozen=True):
    """What the communication model says of a placement.

    `allreduce_busbw_gbps` is None when the wiring is unknown. `step_penalty_pct` compares the predicted collective time
    with that of the best placement of the same shape on an empty cluster. `domains` counts the domains used per level,
    closest first.
    """

    allreduce_busbw_gbps: float | None = None
    step_penalty_pct: float | None = None
    domains: tuple[tuple[str, int], ...] = ()
    limited_by: str = ""  # what sets the bandwidth: nvswitch, nvlink ring, pcie, socket link, nic, unknown


class Fits(msgspec.Struct, frozen=True):
    """How many nodes could take their part, and why the others could not; counted by the first reason that applies."""

    nodes_fit: int = 0
    nodes_total: int = 0
    excluded: tuple[tuple[str, int], ...] = ()


class GangResult(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of a single-job search; `placement` is None when nothing fits, and `fits` says why."""

    solve: SolveResult
    fits: Fits
    placement: Placement | None = None
    score: tuple[ScoreTerm, ...] = ()
    prediction: Prediction | None = None
    assumed: tuple[str, ...] = ()  # what the prediction takes for granted, in words
