"""placer's own policies for MAPA's comparison: what a GPU set is worth to the jobs that come after.

**online** (the queue is not known): the set S ⊆ F of the job's size with the largest

    [job sensitive] b(S) + λ E(S),   λ = 1/2,

with b the predicted bandwidth and E what the next job can hope for: its size k is equally likely each of the sizes, the
jobs that run then (this one too) end in any order with equal chance, and it takes the best k free GPUs at the first
moment when there are k:

    E(S) = mean over k of  V_k(F \\ S, ∅),
    V_k(M, U) = best_k(M) if |M| >= k, else the mean over the running jobs r that are not in U of V_k(M ∪ G_r, U ∪ {r}).

Ties: the most NVLink bandwidth among the GPUs left free, the largest ring sum, the lowest GPUs.

**look-ahead** (the queue and the service times are known, as with time limits): this job and the next D of the queue
are placed in thought by the same clock. At each depth d the best W_d sets by [sensitive] b(S) + λ mean_k best_k(F \\ S)
are tried, and the set wins that starts the largest sum of b over the sensitive jobs (ties: mean_k best_k(F \\ S), then
the order of trying). A branch is left when not even the server's best sets for the jobs to come would be enough.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from placer.simulation import mapa, mapa_server

LAMBDA = 0.5
WIDTHS = {3: (12, 8, 6, 6), 5: (8, 6, 5, 4, 3, 3)}
"""W_d for the job itself and each job after it, by the number of jobs that is looked ahead."""

_CLOSE = 1e-9

Masks = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Running = tuple[tuple[int, int], ...]


def online() -> mapa.Policy:
    """The policy that knows nothing of the queue."""
    return mapa.Policy("placer-online", _Online().choose)


def look_ahead(depth: int = 3) -> mapa.Policy:
    """The policy that knows the next `depth` jobs and when the running ones end; 0 = it knows nothing."""
    if depth < 1:
        return mapa.Policy("placer", _Online().choose)
    widths = WIDTHS.get(depth, (8, *[max(3, 6 - d) for d in range(depth)]))
    return mapa.Policy("placer", _Ahead(widths).choose)


class _Online:
    """Remembers what it answered: a server is often in the same state again."""

    def __init__(self) -> None:
        self._tables: mapa_server.Tables | None = None
        self._known: dict[tuple[int, bool, tuple[int, ...]], int] = {}

    def choose(self, tables: mapa_server.Tables, moment: mapa.Moment) -> int:
        held = tuple(sorted(gpus for _, gpus in moment.running))
        if tables is not self._tables:
            self._tables, self._known = tables, {}
        key = (moment.job.size, moment.job.sensitive, held)
        if key not in self._known:
            self._known[key] = _best_now(tables, moment.job, moment.free, held)
        return self._known[key]


def _best_now(tables: mapa_server.Tables, job: mapa.Job, free: int, held: tuple[int, ...]) -> int:
    at = tables.inside(free, job.size)
    sets = tables.sets[job.size]
    masks = sets.masks[at]
    left = free & ~masks
    value = LAMBDA * expected(tables, left, (*held, masks))
    if job.sensitive:
        value = value + sets.predicted[at]
    best = np.flatnonzero(value >= value.max() - _CLOSE)
    order = np.lexsort((-sets.ring_sum[at[best]], -tables.nvlink_gbps[left[best]]))
    return int(at[best[order[0]]])


def expected(tables: mapa_server.Tables, left: Masks, held: Iterable[int | Masks]) -> Floats:
    """E of the module: GB/s that the next job can hope for, when `left` is free and the jobs in `held` run.

    `left` and any member of `held` may be arrays of one length with equally many GPUs in each element.
    """
    jobs = list(held)
    gpus = [int(np.atleast_1d(job)[0]).bit_count() for job in jobs]
    free = int(left[0]).bit_count() if len(left) else 0
    total: Floats = np.zeros(len(left))
    for size in mapa_server.SIZES:
        known: dict[int, Floats] = {}

        def value(ended: int, size: int = size, known: dict[int, Floats] = known) -> Floats:
            if ended not in known:
                back = [r for r in range(len(jobs)) if ended >> r & 1]
                if free + sum(gpus[r] for r in back) >= size:
                    mask = left
                    for r in back:
                        mask = mask | jobs[r]
                    known[ended] = tables.best[size][mask]
                else:
                    parts = [value(ended | 1 << r) for r in range(len(jobs)) if not ended >> r & 1]
                    known[ended] = np.mean(parts, axis=0)
            return known[ended]

        total += value(0)
    return total / len(mapa_server.SIZES)


class _Ahead:
    def __init__(self, widths: tuple[int, ...]) -> None:
        self.widths = widths
        self._tables: mapa_server.Tables | None = None
        self._candidates: dict[tuple[int, int, bool, int], list[tuple[int, int, float]]] = {}

    def choose(self, tables: mapa_server.Tables, moment: mapa.Moment) -> int:
        if tables is not self._tables:
            self._tables, self._candidates = tables, {}
        jobs = (moment.job, *moment.queue[moment.place : moment.place + len(self.widths) - 1])
        return self._search(tables, jobs, 0, moment.free, moment.running, moment.now, -1.0)[1]

    def _search(
        self,
        tables: mapa_server.Tables,
        jobs: tuple[mapa.Job, ...],
        depth: int,
        free: int,
        running: Running,
        now: int,
        least: float,
    ) -> tuple[float, int]:
        """Largest sum from this job on and the set it takes; what cannot exceed `least` may be left out."""
        job = jobs[depth]
        free, running, now = _wait(free, running, now, job.size)
        hope = sum(float(tables.best[j.size][tables.everything]) for j in jobs[depth + 1 :] if j.sensitive)
        best, chosen, best_rest = -1.0, -1, -1.0
        for at, taken, gain in self._candidates_of(tables, free, job, self.widths[depth]):
            if chosen >= 0 and gain + hope <= max(best, least) - _CLOSE:
                continue
            rest = free & ~taken
            value = gain
            if depth + 1 < len(jobs):
                after = tuple(sorted((*running, (now + job.service, taken))))
                value += self._search(tables, jobs, depth + 1, rest, after, now, max(best, least) - gain)[0]
            future = float(tables.future[rest])
            if chosen < 0 or value > best + _CLOSE or (value > best - _CLOSE and future > best_rest + _CLOSE):
                best, chosen, best_rest = value, at, future
        return best, chosen

    def _candidates_of(
        self, tables: mapa_server.Tables, free: int, job: mapa.Job, width: int
    ) -> list[tuple[int, int, float]]:
        """(position, GPUs, gain) of the sets to try, the most promising first."""
        key = (free, job.size, job.sensitive, width)
        known = self._candidates.get(key)
        if known is None:
            at = tables.inside(free, job.size)
            sets = tables.sets[job.size]
            gain = sets.predicted[at] if job.sensitive else np.zeros(len(at))
            promise = gain + LAMBDA * tables.future[free & ~sets.masks[at]]
            first = np.argsort(-np.round(promise, 9), kind="stable")[:width]
            known = [(int(at[i]), int(sets.masks[at[i]]), float(gain[i])) for i in first]
            self._candidates[key] = known
        return known


def _wait(free: int, running: Running, now: int, size: int) -> tuple[int, Running, int]:
    """The first moment when so many GPUs are free: all jobs that end until then have given theirs back."""
    ended = 0
    while free.bit_count() < size:
        now = running[ended][0]
        while ended < len(running) and running[ended][0] == now:
            free |= running[ended][1]
            ended += 1
    return free, running[ended:], now
