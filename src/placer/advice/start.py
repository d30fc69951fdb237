"""When a job that does not fit now could start: the first end of a running job after which it fits.

Only ends by time limit are known, so the estimate is the latest that the running jobs allow and the earliest that the
queue allows: jobs ahead in the queue may take what becomes free. Freed capacity only grows over the ends, so the first
sufficient one is found by bisection.
"""

from __future__ import annotations

from collections.abc import Callable

from placer.advice import types
from placer.cluster import capacity
from placer.cluster import types as cluster


def estimate(
    snapshot: cluster.ClusterSnapshot,
    free: capacity.Capacity,
    fits: Callable[[capacity.Capacity], bool | None],
) -> types.Start:
    """The earliest end of a running job at which `fits` holds; at most log2(jobs) + 1 calls of `fits`.

    `fits` is None when the time for the search is over: then the earliest end that is known to be enough is given.
    """
    running = [job for job in snapshot.jobs if job.allocations]
    ending = sorted((job.ends, job.id) for job in running if job.ends is not None)
    jobs = {job.id: job for job in running}
    endless = len(running) - len(ending)

    base, released = free, 0  # what the ends that are not enough give back

    def after(count: int) -> capacity.Capacity:
        return base.release(a for _, job_id in ending[released:count] for a in jobs[job_id].allocations)

    enough = fits(after(len(ending))) if ending else False
    if not enough:
        late = "not estimated: time limit of the search"
        return types.Start(None, late if enough is None else _hopeless(len(ending), endless))
    low, high = 1, len(ending)
    while low < high and enough is not None:
        middle = (low + high) // 2
        there = after(middle)
        enough = fits(there)
        if enough:
            high = middle
        elif enough is False:
            low, base, released = middle + 1, there, middle
    moment, _ = ending[high - 1]
    ahead = sum(job.state is cluster.JobState.PENDING for job in snapshot.jobs)
    basis = f"time limits of the {high} running jobs that end first"
    if enough is None:
        basis += "; an earlier end may be enough: time limit of the search"
    return types.Start(moment, basis + (f"; {ahead} pending jobs may take the room before" if ahead else ""))


def _hopeless(ending: int, endless: int) -> str:
    missing = "nodes or partitions that are down, drained or reserved are missing"
    if ending:
        more = f" and {endless} without a time limit run on" if endless else ""
        return f"not even after all {ending} running jobs have ended{more}: {missing}"
    return "no running job tells when it ends" if endless else f"nothing runs: {missing}"
