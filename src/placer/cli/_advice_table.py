"""Advice for people: verdict first, then the nodes, a picture, the binding, what it costs, what else, what to run."""

from __future__ import annotations

from placer import errors, hostlist, ranges, units
from placer.advice import types as advice
from placer.cli import _render
from placer.cluster import capacity
from placer.cluster import types as cluster
from placer.placement import shapes
from placer.placement import types as plan
from placer.report import node_picture
from placer.topology import types as topo

MAX_ROWS = 16
"""Rows of a table before the rest is counted only; `-o json` has them all."""

MAX_COMMAND = 131_072
"""Characters of one command line that Linux takes as one word, so that no honest command is cut."""


def text(found: advice.Advice, snapshot: cluster.ClusterSnapshot) -> str:
    """The whole answer as plain text."""
    parts = [_verdict(found)]
    if found.placement is not None:
        parts += [_nodes(found.placement, snapshot), _picture(found.placement, snapshot), _ranks(found.placement)]
    if found.prediction is not None:
        parts.append(_predicted(found))
    if found.score:
        rows = [(t.name, "unknown" if t.value is None else f"{t.value:g} {t.unit}".strip(), t.why) for t in found.score]
        parts.append(_render.plain_table(("score", "value", "why"), rows))
    parts.append(_fits(found))
    if found.alternatives:
        parts.append(_alternatives(found.alternatives))
    parts += [_commands(found.commands), _notes(found.notes)]
    return "\n\n".join(part for part in parts if part)


def _verdict(found: advice.Advice) -> str:
    wants = _wants(found.shape)
    if found.verdict is advice.Verdict.FITS_NOW and found.placement is not None:
        names = hostlist.fold([node.name for node in found.placement.nodes])
        return f"fits now: {wants} on {errors.printable(names, 2000)}"
    if found.verdict is advice.Verdict.NEVER_FITS:
        return f"never fits: {wants} cannot be had from this cluster, even when it is empty"
    start = found.start
    if start is None or start.earliest is None:
        return f"must wait: {wants} cannot be had now; {start.basis if start else 'the start is not known'}"
    return f"must wait: {wants} cannot be had now; earliest start {units.format_moment(start.earliest)} ({start.basis})"


def _wants(shape: shapes.Shape) -> str:
    if shape.fill and not shape.exactly:
        return _some(shape.gpus, "GPU")
    if shape.extra or shape.fill:
        return f"{shape.gpus} GPUs on {_some(shape.count, 'node')}"
    return f"{shape.count} x {_some(shape.demand.gpus, 'GPU')}" if shape.demand.gpus else _some(shape.count, "node")


def _some(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _nodes(placement: plan.Placement, snapshot: cluster.ClusterSnapshot) -> str:
    levels = [level.name for level in snapshot.topology.fabric.levels]
    member = {(d.level, n): d.name for d in snapshot.topology.fabric.domains for n in d.nodes}
    rows = []
    for node in placement.nodes[:MAX_ROWS]:
        domains = [errors.printable(member.get((i, node.name), "-")) for i in range(len(levels))]
        cpus = ranges.format([c for r in node.ranks for c in r.cpus])
        rows.append((errors.printable(node.name), _gpus(node.gpus), cpus or "-", *domains))
    return _cut(_render.plain_table(("node", "gpus", "cpus", *levels), rows), len(placement.nodes), "nodes")


def _gpus(gpus: tuple[int, ...]) -> str:
    return ",".join(str(g) for g in gpus) if gpus else "-"


def _picture(placement: plan.Placement, snapshot: cluster.ClusterSnapshot) -> str:
    name = placement.nodes[0].name
    free = next(f for f in capacity.of(snapshot).nodes if f.node.name == name)
    count = max((g.index + 1 for g in free.node.gpus), default=0)
    used = [g.index for g in free.node.gpus if not free.gpu_mask >> g.index & 1]
    return node_picture.node(
        _machine(snapshot, name), name=name, gpu_count=count, used=used, chosen=placement.nodes[0].gpus
    )


def _machine(snapshot: cluster.ClusterSnapshot, name: str) -> topo.NodeTopology | None:
    topology = snapshot.topology
    number = dict(zip(topology.nodes, topology.machine_of, strict=True)).get(name, -1)
    return topology.machines[number] if number >= 0 else None


def _ranks(placement: plan.Placement) -> str:
    rows = [
        (
            str(rank.rank),
            errors.printable(node.name),
            str(rank.local_rank),
            _gpus(rank.gpus),
            ranges.format(rank.cpus) or "-",
            ranges.format(rank.memory_nodes) or "-",
            ",".join(errors.printable(n) for n in rank.nics) or "-",
        )
        for node in placement.nodes
        for rank in node.ranks
    ]
    table = _render.plain_table(("rank", "node", "local", "gpu", "cpus", "memory", "nic"), rows[:MAX_ROWS])
    return _cut(table, len(rows), "ranks")


def _cut(table: str, total: int, what: str) -> str:
    return table if total <= MAX_ROWS else f"{table}\n… {total - MAX_ROWS} more {what}; `-o json` has them all"


def _predicted(found: advice.Advice) -> str:
    prediction = found.prediction
    if prediction is None or prediction.allreduce_busbw_gbps is None:
        return f"predicted bandwidth: none, {prediction.limited_by if prediction else 'unknown'}"
    line = f"predicted: all-reduce {prediction.allreduce_busbw_gbps:.0f} GB/s, limited by {prediction.limited_by}"
    if prediction.step_penalty_pct:
        line += f"; collectives take {prediction.step_penalty_pct:g} % longer than on an empty cluster"
    return line


def _fits(found: advice.Advice) -> str:
    fits, solve = found.fits, found.solve
    excluded = ", ".join(f"{reason} {count}" for reason, count in fits.excluded)
    short = f", {found.shape.count} needed" if fits.nodes_fit < found.shape.count else ""
    line = f"{fits.nodes_fit} of {fits.nodes_total} nodes fit{short}" + (f"; excluded: {excluded}" if excluded else "")
    gap = f", gap {solve.gap:g}" if solve.gap is not None else ""
    return f"{line}\nsolved: {solve.termination.value}{gap} by {solve.method} in {solve.seconds * 1000:.1f} ms"


def _alternatives(found: tuple[advice.Alternative, ...]) -> str:
    rows = []
    for number, other in enumerate(found, 1):
        names = hostlist.fold([node.name for node in other.placement.nodes])
        sets = " ".join(_gpus(node.gpus) for node in other.placement.nodes[:4])
        rows.append((str(number), errors.printable(names), sets, other.why_not))
    return _render.plain_table(("alternative", "nodes", "gpus", "why not"), rows)


def _commands(found: tuple[str, ...]) -> str:
    return "\n".join(["to run it:", *(f"  {errors.printable(line, MAX_COMMAND)}" for line in found)]) if found else ""


def _notes(found: tuple[str, ...]) -> str:
    return "\n".join(f"note: {errors.printable(line, 300)}" for line in found)
