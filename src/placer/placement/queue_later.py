"""When the jobs that do not start now could start: the queue walked along the expected ends of what runs.

At every moment at which a job is expected to end (by its time limit), what is free then is filled with the waiting
jobs by the rule of thumb (`queue_greedy`), and these run for their own time limits. Ends are rounded up to a grid of
at most `MOMENTS` steps of the horizon, so a start is told a little late rather than early. Jobs without a limit never
end.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence

import msgspec
import numpy as np

from placer.placement import queue_greedy as greedy
from placer.placement import queue_problem as queue

MOMENTS = 96


class Running(msgspec.Struct, frozen=True, eq=False):
    """What a job gives back `after` so many seconds: int [D, len(nodes)]."""

    after: int
    nodes: queue.Ints
    gives: queue.Ints


class Expected(msgspec.Struct, frozen=True):
    """Seconds from now, and the nodes of each part."""

    after: int
    start: queue.Start


def walk(
    problem: queue.Problem,
    starts: Sequence[queue.Start],
    running: Sequence[Running],
    seconds: Mapping[int, int],
    *,
    whole: queue.Ints,
    horizon: int,
    jobs: Sequence[int] | None = None,
    late: Callable[[], bool] = lambda: False,
) -> dict[int, Expected]:
    """The expected start of jobs (all waiting ones, or these) within `horizon` seconds; the rest is not told.

    `starts` start now. `seconds` are time limits by job; `whole` int [D, n] is the room of the empty cluster.
    """
    return _Walk(problem, running, seconds, whole, horizon).run(starts, jobs, late)


class _Walk:
    """The state of the walk: what is free, and a heap of the ends to come."""

    def __init__(
        self,
        problem: queue.Problem,
        running: Sequence[Running],
        seconds: Mapping[int, int],
        whole: queue.Ints,
        horizon: int,
    ) -> None:
        self.problem, self.seconds, self.whole, self.horizon = problem, seconds, whole, horizon
        self.step = max(1, -(-horizon // MOMENTS))
        self.room = greedy.Room(problem)
        self.ends: list[tuple[int, int, Running]] = []
        self.count = 0
        for job in running:
            self._end(job)

    def run(
        self, starts: Sequence[queue.Start], jobs: Sequence[int] | None, late: Callable[[], bool]
    ) -> dict[int, Expected]:
        """Walk from end to end."""
        for start in starts:
            for (_, piece), nodes in zip(self.problem.modes[start.mode].parts, start.nodes, strict=True):
                self.room.take(piece, np.array(nodes, dtype=np.int64))
            self._begin(start, 0)
        begun = {start.job for start in starts}
        wanted = set(range(len(self.problem.jobs)) if jobs is None else jobs) - begun
        order = [job for job in greedy.order(self.problem) if job in wanted]
        found: dict[int, Expected] = {}
        while self.ends and order and not late():
            now = self.ends[0][0]
            if now > self.horizon:
                break
            while self.ends and self.ends[0][0] <= now:
                self._release(heapq.heappop(self.ends)[2])
            self.room.reopen()
            for start in greedy.fill(self.problem, self.room, order, late):
                found[start.job] = Expected(now, start)
                self._begin(start, now)
            order = [job for job in order if job not in found]
        return found

    def _end(self, job: Running) -> None:
        moment = -(-job.after // self.step) * self.step
        self.count += 1
        heapq.heappush(self.ends, (max(moment, 1), self.count, job))

    def _begin(self, start: queue.Start, now: int) -> None:
        """Note what a job that has just been placed gives back."""
        seconds = self.seconds.get(start.job)
        for (_, number), nodes in zip(self.problem.modes[start.mode].parts, start.nodes, strict=True):
            where, piece = np.array(nodes, dtype=np.int64), self.problem.pieces[number]
            gives = self.whole[:, where] + 1 if piece.whole else self.problem.needs(piece, where)
            if seconds is not None:
                self._end(Running(now + seconds, where, gives))

    def _release(self, job: Running) -> None:
        room = self.room.room
        room[:, job.nodes] = np.minimum(room[:, job.nodes] + job.gives, self.whole[:, job.nodes])
        self.room.untouched[job.nodes] = (room[:, job.nodes] >= self.whole[:, job.nodes]).all(axis=0)
