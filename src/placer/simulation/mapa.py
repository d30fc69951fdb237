"""MAPA's comparison (SC '21): bandwidth of jobs on one multi-GPU server, first come first served.

All jobs wait from the start. The first of the queue starts as soon as enough GPUs are free and holds up the others; it
keeps its GPUs for its service time, whatever their bandwidth. A job takes 2 to 5 GPUs for 5 to 24 steps and talks in a
ring; four of six networks are sensitive to bandwidth, and what is compared is the predicted bandwidth of their rings.

Published policies, all with ties to the set with the lowest GPUs:

* `baseline`: the lowest free GPUs;
* `topo-aware`: the first set inside one socket, else as baseline;
* `greedy`: the ring with the largest sum of link bandwidths;
* `preserve`: a sensitive job takes the largest predicted bandwidth, another leaves the most NVLink bandwidth among the
  free GPUs (ties: the largest ring sum).

`mapa_ahead` has placer's own. A set is rated by the ring that its policy would use: the one of largest sum for the
first three, the one of largest predicted bandwidth for the others.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec
import numpy as np

from placer.simulation import mapa_server

NETWORKS = 6
SENSITIVE_NETWORKS = 4
"""The first four of the six: AlexNet, Inception-v3, ResNet-50, VGG-16."""


class Job(msgspec.Struct, frozen=True):
    """A job of the queue. `service` in steps of the clock."""

    size: int
    service: int
    sensitive: bool


class Moment(msgspec.Struct, frozen=True):
    """What a policy is asked: the first job of the queue starts now. GPUs are masks."""

    job: Job
    free: int
    running: tuple[tuple[int, int], ...]  # (end, GPUs), ascending
    now: int
    queue: Sequence[Job] = ()  # the jobs behind it
    place: int = 0  # of the next one in `queue`


class Policy(msgspec.Struct, frozen=True):
    """`choose` gives the position in `tables.sets[size]` of the set that the job takes."""

    name: str
    choose: Callable[[mapa_server.Tables, Moment], int]
    by_sum: bool = False  # its ring is the one with the largest sum of links


class Summary(msgspec.Struct, frozen=True):
    """Predicted bandwidth of the sensitive jobs, GB/s; all None when there was none."""

    jobs: int
    mean: float | None = None
    p25: float | None = None
    min: float | None = None


class Draws(Protocol):
    """The two draws that `random.Random` has; the caller seeds it, as this room draws nothing itself."""

    def randrange(self, start: int, stop: int, /) -> int:
        """A whole number of start … stop - 1."""

    def choice(self, of: Sequence[int], /) -> int:
        """One of a sequence."""


def draw(draws: Draws, count: int) -> tuple[Job, ...]:
    """MAPA's job mix: for each job the size, the service time, the network, in this order of draws."""
    low, high = mapa_server.SIZES[0], mapa_server.SIZES[-1]
    return tuple(
        Job(draws.randrange(low, high + 1), draws.randrange(5, 25), draws.choice(range(NETWORKS)) < SENSITIVE_NETWORKS)
        for _ in range(count)
    )


def replay(tables: mapa_server.Tables, jobs: Sequence[Job], policy: Policy) -> tuple[float, ...]:
    """Predicted bandwidth, GB/s, of each sensitive job in the order of the queue."""
    free, now = tables.everything, 0
    running: list[tuple[int, int]] = []
    found: list[float] = []
    for place, job in enumerate(jobs, start=1):
        while free.bit_count() < job.size:
            now = running[0][0]
            while running and running[0][0] == now:
                free |= heapq.heappop(running)[1]
        at = policy.choose(tables, Moment(job, free, tuple(sorted(running)), now, jobs, place))
        sets = tables.sets[job.size]
        taken = int(sets.masks[at])
        free &= ~taken
        heapq.heappush(running, (now + job.service, taken))
        if job.sensitive:
            found.append(float((sets.predicted_of_sum if policy.by_sum else sets.predicted)[at]))
    return tuple(found)


def summary(bandwidths: Sequence[float]) -> Summary:
    """Mean, 25th percentile (linear between neighbours) and minimum."""
    if not bandwidths:
        return Summary(0)
    values = np.array(bandwidths)
    return Summary(len(values), float(values.mean()), float(np.percentile(values, 25)), float(values.min()))


def _baseline(tables: mapa_server.Tables, moment: Moment) -> int:
    return int(tables.inside(moment.free, moment.job.size)[0])


def _topo_aware(tables: mapa_server.Tables, moment: Moment) -> int:
    at = tables.inside(moment.free, moment.job.size)
    masks = tables.sets[moment.job.size].masks[at]
    server = tables.server
    near = np.zeros(len(at), dtype=bool)
    for first in range(0, server.gpus, server.socket):
        socket = ((1 << server.socket) - 1) << first
        near |= masks & ~np.int64(socket) == 0
    return int(at[near][0]) if near.any() else int(at[0])


def _greedy(tables: mapa_server.Tables, moment: Moment) -> int:
    at = tables.inside(moment.free, moment.job.size)
    return int(at[tables.sets[moment.job.size].ring_sum[at].argmax()])


def _preserve(tables: mapa_server.Tables, moment: Moment) -> int:
    at = tables.inside(moment.free, moment.job.size)
    sets = tables.sets[moment.job.size]
    if moment.job.sensitive:
        return int(at[sets.predicted[at].argmax()])
    left = tables.nvlink_gbps[moment.free & ~sets.masks[at]]
    return int(at[np.lexsort((-sets.ring_sum[at], -left))[0]])


PUBLISHED = (
    Policy("baseline", _baseline, by_sum=True),
    Policy("topo-aware", _topo_aware, by_sum=True),
    Policy("greedy", _greedy, by_sum=True),
    Policy("preserve", _preserve),
)
