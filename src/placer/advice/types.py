"""The nouns of advice: what a person is told about one job."""

from __future__ import annotations

import enum

import msgspec

from placer.placement import shapes
from placer.placement import types as plan


class Verdict(enum.StrEnum):
    """The first word of every answer."""

    FITS_NOW = "fits-now"
    MUST_WAIT = "must-wait"
    NEVER_FITS = "never-fits"


class Start(msgspec.Struct, frozen=True):
    """When a job could start. `earliest` is seconds since 1970; None = not before something changes."""

    earliest: int | None
    basis: str


class Alternative(msgspec.Struct, frozen=True):
    """Another way to run the job, and what it loses or needs."""

    placement: plan.Placement
    prediction: plan.Prediction
    why_not: str


class Options(msgspec.Struct, frozen=True):
    """How advice is made. `oversubscription` names levels; `script` is what the commands submit."""

    limits: plan.SolveLimits = plan.SolveLimits()
    oversubscription: tuple[tuple[str, float], ...] = ()
    nic_gbits: float | None = None  # speed of a NIC where nothing tells it
    alternatives: int = 3
    script: str | None = None
    overridden: bool = False  # the request says more than the script


class Advice(msgspec.Struct, frozen=True, kw_only=True):
    """Where a job should run, and why."""

    verdict: Verdict
    shape: shapes.Shape
    solve: plan.SolveResult
    fits: plan.Fits
    placement: plan.Placement | None = None
    score: tuple[plan.ScoreTerm, ...] = ()
    prediction: plan.Prediction | None = None
    start: Start | None = None
    alternatives: tuple[Alternative, ...] = ()
    commands: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()  # what was assumed, what else to know
