"""Advice as a document: kind `Advice`, keys as promised."""

from __future__ import annotations

from typing import Any

from placer import ranges, units
from placer.advice import types as advice
from placer.placement import types as plan


def document(found: advice.Advice) -> dict[str, Any]:
    """Plain builtins in the order that a reader wants."""
    return {
        "verdict": found.verdict.value,
        "placement": placement(found.placement),
        "score": [{"name": t.name, "value": t.value, "unit": t.unit, "why": t.why} for t in found.score],
        "predicted": predicted(found.prediction),
        "solve": solve(found.solve),
        "fits": {
            "nodes_fit": found.fits.nodes_fit,
            "nodes_total": found.fits.nodes_total,
            "excluded": dict(found.fits.excluded),
        },
        "start": _start(found.start),
        "alternatives": [
            {"placement": placement(a.placement), "predicted": predicted(a.prediction), "why_not": a.why_not}
            for a in found.alternatives
        ],
        "commands": list(found.commands),
        "notes": list(found.notes),
    }


def placement(found: plan.Placement | None) -> dict[str, Any] | None:
    """Nodes, GPU sets and rank bindings; CPUs in list syntax."""
    if found is None:
        return None
    return {"nodes": [_node(node) for node in found.nodes]}


def _node(node: plan.NodePlacement) -> dict[str, Any]:
    ranks = [
        {
            "rank": r.rank,
            "local_rank": r.local_rank,
            "gpus": list(r.gpus),
            "cpus": ranges.format(r.cpus) if r.cpus else None,
            "memory_nodes": list(r.memory_nodes),
            "nics": list(r.nics),
        }
        for r in node.ranks
    ]
    return {"name": node.name, "gpus": list(node.gpus), "ranks": ranks}


def predicted(found: plan.Prediction | None) -> dict[str, Any] | None:
    """Bandwidth in GB/s one way; unknown is null."""
    if found is None:
        return None
    return {
        "allreduce_busbw_gbps": found.allreduce_busbw_gbps,
        "step_penalty_pct": found.step_penalty_pct,
        "domains": dict(found.domains),
        "limited_by": found.limited_by,
    }


def solve(found: plan.SolveResult) -> dict[str, Any]:
    """How the answer was found."""
    return {
        "method": found.method,
        "termination": found.termination.value,
        "objective": found.objective,
        "bound": found.bound,
        "gap": found.gap,
        "seconds": round(found.seconds, 6),
    }


def _start(found: advice.Start | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {
        "earliest": units.format_moment(found.earliest) if found.earliest is not None else None,
        "basis": found.basis,
    }
