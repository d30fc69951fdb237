"""Which options placer adds to a submission, each with its reason.

A pin (`--nodelist`) makes a job wait for exactly these nodes. So it is added only when they are free now and nothing
speaks against the job starting at once; a job that waits gets wishes that Slurm may drop (`--switches`) or that leave
it nearly every node (`--exclude`). What the user said, anywhere, is never said again.
"""

from __future__ import annotations

from typing import Final

import msgspec

from placer import hostlist
from placer.advice import types as advice
from placer.cluster import types as cluster
from placer.placement import gpuset, job
from placer.slurm import submission_types as submissions

MOST_EXCLUDED: Final = 4
"""More nodes than this are not excluded: the job would wait for the rest of the cluster."""

SLOW: Final = 0.5
"""A node is worth avoiding when its best set of GPUs has less than this part of the best bandwidth."""

_STARTS_LATER: Final = ("begin", "dependency", "hold")
_NODES_BY_HAND: Final = ("nodelist", "nodefile", "prefer", "segment", "batch", "cluster-constraint", "contiguous")
_WAITS_FOR_ITSELF: Final = ("Dependency", "BeginTime", "JobHeld", "JobArrayTaskLimit", "DependencyNeverSatisfied")


class Addition(msgspec.Struct, frozen=True):
    """One option, as it goes before the user's own, and why."""

    option: str
    reason: str


class Decision(msgspec.Struct, frozen=True):
    """What is added, and why other things are not."""

    additions: tuple[Addition, ...] = ()
    remarks: tuple[str, ...] = ()


def decide(
    found: advice.Advice,
    snapshot: cluster.ClusterSnapshot,
    submission: submissions.Submission,
    *,
    allow_pin: bool,
) -> Decision:
    """Decide by the rules above; pure."""
    if found.verdict is advice.Verdict.NEVER_FITS:
        return Decision((), ("nothing is added: the job never fits",))
    objection = "pins are off" if not allow_pin else _against_a_pin(found, snapshot, submission)
    if objection is None and found.placement is not None:
        names = [node.name for node in found.placement.nodes]
        pin = f"--nodelist={hostlist.fold(names)}"
        return Decision((Addition(pin, "free now, and no job waits for these nodes"),))
    additions = [
        wish for wish in (_switches(found, snapshot, submission), _exclude(found, snapshot, submission)) if wish
    ]
    return Decision(tuple(additions), (f"no --nodelist: {objection}",))


def _against_a_pin(
    found: advice.Advice, snapshot: cluster.ClusterSnapshot, submission: submissions.Submission
) -> str | None:
    """The first thing that speaks against pinning nodes; None when nothing does."""
    if found.placement is None:
        return "the job does not fit now"
    if not submission.understood:
        return "part of the request is not understood"
    by_hand = next((name for name in _NODES_BY_HAND if submission.gives(name)), None)
    if by_hand is not None or submission.request.nodelist:
        return f"`--{by_hand or 'nodelist'}` is given"
    later = next((name for name in _STARTS_LATER if submission.gives(name)), None)
    if later is not None:
        return f"`--{later}` keeps the job from starting at once"
    if submission.gives("array"):
        return "the tasks of an array would all wait for the same nodes"
    names = [node.name for node in found.placement.nodes]
    if _fixed_nodes(submission.request) != len(names):
        return "the number of nodes is left to Slurm"
    if found.fits.nodes_fit <= len(names):
        return "Slurm has no other choice"
    if snapshot.left_out:
        return f"the state of the cluster is incomplete: {snapshot.left_out[0]}"
    return _contender(snapshot, frozenset(names))


def _fixed_nodes(request: cluster.JobRequest) -> int | None:
    """How many nodes Slurm will give whatever is free; None when that depends."""
    if request.nodes is not None:
        return request.nodes if request.nodes_max in {None, request.nodes} else None
    one_task = (request.ntasks or 1) == 1
    spread = request.gpus is not None and request.gpus > 1
    return 1 if one_task and not spread else None


def _contender(snapshot: cluster.ClusterSnapshot, names: frozenset[str]) -> str | None:
    """A job that waits in a partition with any of these nodes; it may come first, for our priority is not known."""
    nodes_of = {partition.name: frozenset(partition.nodes) for partition in snapshot.partitions}
    for waiting in snapshot.jobs:
        if waiting.state is not cluster.JobState.PENDING or (waiting.reason or "").startswith(_WAITS_FOR_ITSELF):
            continue
        partitions = [name for name in waiting.partition.split(",") if name]
        if not partitions or any(names & nodes_of.get(name, names) for name in partitions):
            return f"job {waiting.alias or waiting.id} waits for nodes of this partition already"
    return None


def _switches(
    found: advice.Advice, snapshot: cluster.ClusterSnapshot, submission: submissions.Submission
) -> Addition | None:
    """`--switches=1` for a job of several nodes that wants one leaf switch, or would get one by the advice."""
    fabric, wanted = snapshot.topology.fabric, submission.request.topology
    plugin = dict(snapshot.settings).get("TopologyPlugin", "topology/tree")
    uneven = found.shape.extra > 0 or found.shape.fill > 0
    if uneven and _fixed_nodes(submission.request) is None:
        return None  # Slurm deals out the GPUs otherwise, and for one switch may choose to wait
    if found.shape.count < 2 or fabric.kind != "tree" or not fabric.levels or not plugin.endswith("tree"):
        return None
    if submission.gives("switches", "nodelist", "nodefile", "spread-job", "segment", "contiguous"):
        return None
    leaf = fabric.levels[0].name
    if wanted.required == leaf:
        return Addition("--switches=1@1-0", f"one {leaf} is required; Slurm waits for it as long as the site allows")
    largest = max((len(domain.nodes) for domain in fabric.domains if domain.level == 0), default=0)
    used = dict(found.prediction.domains).get(leaf) if found.prediction is not None else None
    if used == 1 or (found.placement is None and found.shape.count <= largest):
        why = f"one {leaf} is preferred" if wanted.preferred == leaf else f"the job fits below one {leaf}"
        return Addition("--switches=1@5:00", f"{why}; after 5 minutes any nodes will do")
    return None


def _exclude(
    found: advice.Advice, snapshot: cluster.ClusterSnapshot, submission: submissions.Submission
) -> Addition | None:
    """The few nodes on which the job's GPUs would be wired far worse than on the others."""
    request = submission.request
    size = found.shape.demand.gpus
    if size < 2 or request.workload in {cluster.Workload.INDEPENDENT, cluster.Workload.HOST_BOUND}:
        return None
    if submission.gives("exclude", "nodelist", "nodefile") or request.constraint:
        return None
    rated = _bandwidths(snapshot, request, size)
    best = max(rated.values(), default=0.0)
    slow = [name for name, busbw in rated.items() if busbw < SLOW * best]
    if not 0 < len(slow) <= min(MOST_EXCLUDED, len(rated) // 4) or len(rated) - len(slow) < found.shape.count:
        return None
    worst = max(rated[name] for name in slow)
    reason = f"{size} GPUs exchange at most {worst:.0f} GB/s there, {best:.0f} GB/s elsewhere"
    return Addition(f"--exclude={hostlist.fold(slow)}", reason)


def _bandwidths(snapshot: cluster.ClusterSnapshot, request: cluster.JobRequest, size: int) -> dict[str, float]:
    """GB/s of the best set of `size` suitable GPUs of each node that is up, where the wiring is known."""
    site = job.site(snapshot, workload=request.workload)
    partitions = set((request.partition or "").split(",")) - {""}
    rated: dict[str, float] = {}
    for position, node in enumerate(snapshot.nodes):
        if node.condition is not cluster.NodeCondition.UP or (partitions and not partitions & set(node.partitions)):
            continue
        choice = _best(site.tables[site.table_of[position]], node, request.gpu_type, size)
        if choice is not None and choice.busbw_gbps is not None:
            rated[node.name] = choice.busbw_gbps
    return rated


def _best(table: gpuset.SetTable, node: cluster.NodeState, gpu_type: str | None, size: int) -> gpuset.SetChoice | None:
    mask = sum(1 << gpu.index for gpu in node.gpus if gpu.healthy and gpu_type in {None, gpu.type})
    return table.best(mask, size)
