"""Which shape of a job ends first, for the same GPUs in all.

For a shape s with start S(s), and a the shape that was asked for:

    E(s) = S(s) + R r(s),    r(s) = 1 - x + x t(s) / t(a)

* R: run time of the asked shape. Only its limit is known, so R is the limit: a slower shape is then judged hardest.
* t(s): predicted time of a 1 GB all-reduce on the nodes that s would get now, or on an empty cluster if it waits.
* x: share of a step that communication takes in the asked shape. Nobody tells it before the run, so it is a range by
  workload, wide on purpose; r is a range with it, and E too.
* S(s): now for what is free now, otherwise between now and the moment that time limits give: jobs end early more often
  than not, by how much is not known. The middle of the range is compared.

Another shape is chosen only if it ends earlier in the middle and not later at the far end, and if it cannot be slower
than `SLOWEST`: a job that runs longer may meet its own time limit.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

import msgspec

from placer.advice import advise, over_shapes, reshape, start
from placer.advice import types as advice
from placer.cluster import capacity
from placer.cluster import types as cluster
from placer.placement import bandwidth, cost, job, shapes
from placer.placement import gang_problem as problems

SLOWEST: Final = 1.25
"""A shape that may run longer than this times the asked one is told of, but not chosen."""

SHARES: Final[dict[cluster.Workload, tuple[float, float]]] = {
    cluster.Workload.ALLREDUCE: (0.0, 0.15),
    cluster.Workload.ALLTOALL: (0.1, 0.5),
    cluster.Workload.PIPELINE: (0.0, 0.1),
    cluster.Workload.HOST_BOUND: (0.0, 0.05),
    cluster.Workload.INDEPENDENT: (0.0, 0.0),
}
"""Share of a step that waits for communication: assumed, not measured; only a scaling file of the job would tell it.

What is published: on DGX A100 with InfiniBand, 2 GPUs on two nodes instead of one took 0.83 to 1.02 times as long,
although the bandwidth falls to a tenth (step times of the Sia and Pollux papers), so that little of it is waited for.
"""

NO_RDMA: Final = 1.0
"""The largest share without RDMA: on T4 nodes with TCP the same split took 1.4 to 2.6 times as long (same source)."""

_EGRESS_GBPS: Final = 48.0
"""Nothing leaves a GPU faster for another node than by PCIe Gen5 x16 (`topology.links`)."""

_WORTH: Final = 60.0
_WORTH_PART: Final = 0.01
"""Seconds, and part of the limit, by which another shape must end earlier."""


class Range(msgspec.Struct, frozen=True):
    """From `low` to `high`; infinite = not known."""

    low: float
    high: float

    @property
    def middle(self) -> float:
        """Halfway."""
        return (self.low + self.high) / 2


class Way(msgspec.Struct, frozen=True):
    """One shape of the job. Moments are seconds since `taken`, the moment of the snapshot."""

    request: cluster.JobRequest
    nodes: int
    gpus_per_node: int
    starts: Range
    relative: Range  # run time over that of the asked shape
    busbw_gbps: float | None = None
    seconds: float | None = None  # the limit of the asked shape

    @property
    def ends(self) -> Range | None:
        """Moments of its end; None without a time limit."""
        if self.seconds is None:
            return None
        return Range(
            self.starts.low + self.seconds * self.relative.low, self.starts.high + self.seconds * self.relative.high
        )


class Comparison(msgspec.Struct, frozen=True):
    """The shape that was asked for, the others (the first to end first), and the one to take."""

    asked: Way
    others: tuple[Way, ...]
    best: Way
    complete: bool = True

    @property
    def changes(self) -> bool:
        """Whether another shape than the asked one is to be taken."""
        return self.best is not self.asked


def compare(
    snapshot: cluster.ClusterSnapshot,
    request: cluster.JobRequest,
    found: advice.Advice,
    options: advice.Options | None = None,
) -> Comparison | str:
    """Compare the shapes of a request with `found`, the advice on the shape it asks for; or why that cannot be done."""
    options = options or advice.Options()
    deadline = problems.Deadline(options.limits)
    reason = _cannot(request, found)
    if reason is not None:
        return reason
    site = job.site(
        snapshot,
        workload=request.workload,
        oversubscription=options.oversubscription,
        nic_gbits=options.nic_gbits,
    )
    asked = _asked(site, request, found, deadline)
    ways: list[Way] = []
    complete = True
    for other in _requests(site, request, found.shape):
        if deadline.passed:
            complete = False
            break
        way = _way(site, other, asked, deadline)
        if way is not None:
            ways.append(way)
    ways.sort(key=lambda way: (_moment(way), way.nodes))
    best = next((way for way in ways if _better(way, asked)), asked)
    return Comparison(asked, tuple(ways), best, complete)


def _cannot(request: cluster.JobRequest, found: advice.Advice) -> str | None:
    if found.verdict is advice.Verdict.NEVER_FITS:
        return "the job never fits in the shape that it asks for"
    if found.shape.gpus < 2:
        return "a job of one GPU has one shape"
    if found.shape.fill or found.shape.extra:
        return "its GPUs do not share out evenly"
    return reshape.fixed(request)


def _requests(site: job.Site, request: cluster.JobRequest, shape: shapes.Shape) -> Iterator[cluster.JobRequest]:
    most = max((capacity.type_mask(n, request.gpu_type).bit_count() for n in site.free.classes.nodes), default=0)
    for count in reshape.counts(shape.gpus, shape.count, most, len(site.snapshot.nodes)):
        other = reshape.on_nodes(request, shape, count)
        if other is not None:
            yield other


def _asked(site: job.Site, request: cluster.JobRequest, found: advice.Advice, deadline: problems.Deadline) -> Way:
    """The asked shape as its advice has it; where it waits, with its bandwidth on an empty cluster."""
    prediction = found.prediction
    starts = Range(0.0, 0.0)
    if found.placement is None:
        questions = advise.ask(site, request, deadline.rest)
        prediction = over_shapes.best(site, questions, deadline, empty=True).result.prediction
        starts = _waiting(site.snapshot, found.start)
    return Way(
        request,
        found.shape.count,
        found.shape.demand.gpus,
        starts,
        Range(1.0, 1.0),
        prediction.allreduce_busbw_gbps if prediction is not None else None,
        _limit(site.snapshot, request),
    )


def _way(site: job.Site, request: cluster.JobRequest, asked: Way, deadline: problems.Deadline) -> Way | None:
    """One other shape; None where it never fits or the time is over before that is known."""
    questions = advise.ask(site, request, deadline.rest)
    now = over_shapes.best(site, questions, deadline)
    starts, result = Range(0.0, 0.0), now.result
    if not now.placed:
        ever = over_shapes.best(site, questions, deadline, empty=True)
        if not ever.placed:
            return None
        result = ever.result

        def fits(free: capacity.Capacity) -> bool | None:
            return over_shapes.possible(site, questions, free, deadline)

        starts = _waiting(site.snapshot, start.estimate(site.snapshot, site.free, fits))
    busbw = result.prediction.allreduce_busbw_gbps if result.prediction is not None else None
    nodes = request.nodes or 1
    low, high = SHARES[request.workload]
    share = Range(low, NO_RDMA if high and _without_rdma(site) else high)
    relative = _relative(share, asked, busbw, nodes)
    return Way(request, nodes, asked.nodes * asked.gpus_per_node // nodes, starts, relative, busbw, asked.seconds)


def _waiting(snapshot: cluster.ClusterSnapshot, told: advice.Start | None) -> Range:
    taken = snapshot.source.taken
    if told is None or told.earliest is None or taken is None:
        return Range(0.0, math.inf)
    return Range(0.0, max(0.0, float(told.earliest - taken)))


def _limit(snapshot: cluster.ClusterSnapshot, request: cluster.JobRequest) -> float | None:
    """The job's time limit, else the one that its partition sets."""
    if request.time_limit is not None:
        return float(request.time_limit)
    for partition in snapshot.partitions:
        if partition.name == request.partition or (request.partition is None and partition.default):
            limit = partition.default_time or partition.max_time
            return float(limit) if limit is not None else None
    return None


def _without_rdma(site: job.Site) -> bool:
    nics = [nic for table in site.tables if table.machine is not None for nic in table.machine.nics]
    return any(nic.rdma is False for nic in nics) and not any(nic.rdma for nic in nics)


def _relative(share: Range, asked: Way, busbw: float | None, nodes: int) -> Range:
    if share.high == 0:
        return Range(1.0, 1.0)
    if busbw is not None and asked.busbw_gbps is None and nodes == 1 < asked.nodes:
        slower_before = busbw >= _EGRESS_GBPS * asked.gpus_per_node  # however fast the unknown network is
        return Range(1 - share.high, 1.0 if slower_before else math.inf)
    if busbw is None or asked.busbw_gbps is None:
        return Range(0.0, math.inf)
    ranks = asked.nodes * asked.gpus_per_node
    ratio = _seconds(busbw, ranks, nodes) / _seconds(asked.busbw_gbps, ranks, asked.nodes)
    low, high = sorted(1 - x + x * ratio for x in (share.low, share.high))
    return Range(low, high)


def _seconds(busbw: float, ranks: int, nodes: int) -> float:
    return bandwidth.collective_seconds(busbw, ranks, nodes, cost.REFERENCE_BYTES).seconds


def _moment(way: Way) -> float:
    """Middle of the end, or of the start where no run time is known."""
    return way.ends.middle if way.ends is not None else way.starts.middle


def _better(way: Way, asked: Way) -> bool:
    if way.relative.high > SLOWEST or not math.isfinite(way.starts.high):
        return False
    mine, theirs = asked.ends, way.ends
    if mine is None or theirs is None:  # no run time: only what is better in both ways
        return way.relative.high <= 1 and way.starts.middle + _WORTH < asked.starts.middle
    worth = max(_WORTH, _WORTH_PART * (asked.seconds or 0.0))
    return theirs.middle + worth < mine.middle and theirs.high <= mine.high
