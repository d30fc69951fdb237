"""A migration plan for people: what it costs, the moves in order, where the request then fits, what to run."""

from __future__ import annotations

from placer import errors, hostlist, ranges
from placer.advice import migration
from placer.cli import _render
from placer.placement import types as plan

MAX_ROWS = 40
"""Rows and commands before the rest is counted only; `-o json` has them all."""


def text(found: migration.MigrationPlan) -> str:
    """The whole plan as plain text."""
    parts = [_headline(found), _moves(found), _targets(found), _solved(found), _commands(found.commands)]
    parts.append("\n".join(f"note: {errors.printable(line, 300)}" for line in found.notes))
    return "\n\n".join(part for part in parts if part)


def _headline(found: migration.MigrationPlan) -> str:
    if not found.fits:
        if found.solve.termination is plan.Termination.INFEASIBLE:
            return "no plan: whatever moves of the jobs that may move, the request does not fit"
        return "no plan was found before the time limit"
    if not found.moves:
        return "nothing has to move: it fits now"
    moves = "1 move" if len(found.moves) == 1 else f"{len(found.moves)} moves"
    jobs = "1 job" if found.jobs == 1 else f"{found.jobs} jobs"
    return f"{moves} of {jobs} with {found.gpus} GPUs make room"


def _moves(found: migration.MigrationPlan) -> str:
    rows = [
        (
            str(move.step),
            errors.printable(move.job, 40),
            _place(move.source, move.source_gpus),
            _place(move.target, move.target_gpus),
        )
        for move in found.moves[:MAX_ROWS]
    ]
    return _cut(_render.plain_table(("step", "job", "from", "to"), rows), len(found.moves), "moves") if rows else ""


def _place(node: str, gpus: tuple[int, ...]) -> str:
    return f"{errors.printable(node, 60)}:{ranges.format(gpus)}" if gpus else errors.printable(node, 60)


def _targets(found: migration.MigrationPlan) -> str:
    if not found.fits:
        return ""
    if len(found.targets) == 1:
        name, gpus = found.targets[0]
        return f"then it fits on {_place(name, gpus)}"
    names = hostlist.fold([name for name, _ in found.targets])
    return f"then it fits on {errors.printable(names, 2000)}"


def _solved(found: migration.MigrationPlan) -> str:
    solve = found.solve
    cost = f", weighted cost {solve.objective:g}" if solve.objective is not None else ""
    gap = f", gap {solve.gap:g}" if solve.gap is not None else ""
    return f"solved: {solve.termination.value}{cost}{gap} by {solve.method} in {solve.seconds * 1000:.1f} ms"


def _commands(found: tuple[str, ...]) -> str:
    lines = [f"  {errors.printable(line, 1000)}" for line in found[:MAX_ROWS]]
    return _cut("\n".join(["to carry it out, step by step:", *lines]), len(found), "commands") if found else ""


def _cut(shown: str, total: int, what: str) -> str:
    return shown if total <= MAX_ROWS else f"{shown}\n… {total - MAX_ROWS} more {what}; `-o json` has them all"
