"""A migration plan as a document: kind `MigrationPlan`, keys as promised."""

from __future__ import annotations

from typing import Any

from placer.advice import migration
from placer.cli import _advice_document


def document(found: migration.MigrationPlan) -> dict[str, Any]:
    """Plain builtins in the order that a reader wants."""
    return {
        "moves": [
            {
                "step": move.step,
                "job": move.job,
                "from": {"node": move.source, "gpus": list(move.source_gpus)},
                "to": {"node": move.target, "gpus": list(move.target_gpus)},
            }
            for move in found.moves
        ],
        "cost": {"jobs": found.jobs, "gpus": found.gpus, "weighted": found.solve.objective},
        "solve": _advice_document.solve(found.solve),
        "placement": {"nodes": [{"name": name, "gpus": list(gpus)} for name, gpus in found.targets]}
        if found.fits
        else None,
        "commands": list(found.commands),
        "notes": list(found.notes),
    }
