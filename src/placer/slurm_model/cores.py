"""Section 3 of the rules: which cores of each socket a node offers; this decides the sockets of the GPUs.

Pass 1 (`first`) keeps to sockets whose GPUs are wanted; pass 2 is made where pass 1 finds no set of nodes.
"""

from __future__ import annotations

import dataclasses
import math

from placer.slurm_model import types
from placer.slurm_model.release import R24, R26
from placer.slurm_model.usable import INFINITE, Open


@dataclasses.dataclass(frozen=True, slots=True)
class Offer:
    """What a node offers. `node` has the open cores and the GPUs of each socket."""

    node: Open
    cpus: int
    gpus: int = 0
    min_cores: int = 0  # the job gets at least so many
    hi: int = INFINITE  # most tasks
    g: int = 0  # CPUs that a GPU comes with

    def of(self, node: Open) -> Offer:
        """The same offer of a node that is alike."""
        return dataclasses.replace(self, node=dataclasses.replace(self.node, machine=node.machine, index=node.index))


def without_gpus(ask: types.Ask, node: Open) -> Offer:
    """The offer to a job without GPUs. [24+] cores that would hold no whole task are closed, from the top."""
    t, narrowed = ask.t(node.machine), node.copy()
    if ask.release >= R24:
        cpus = narrowed.open * t
        keep = math.ceil((cpus - cpus % ask.cpt) / t)
        for s in reversed(range(len(narrowed.cores))):
            narrowed.close(s, keep)
    return Offer(narrowed, narrowed.open * t)


def near_gpus(ask: types.Ask, node: Open, *, first: bool, taken: int = 0, nodes_left: int = 1) -> Offer | None:
    """The offer to a job with GPUs, None where the node cannot serve it.

    `taken`: GPUs already taken on other nodes; `nodes_left`: nodes still wanted, this one included.
    """
    return _Narrowing(ask, node.copy(), first).run(taken, nodes_left)


class _Narrowing:
    """One pass over one node. `lo`, `hi`: bounds of its tasks; `cap`: most GPUs; `have`: GPUs counted so far."""

    def __init__(self, ask: types.Ask, node: Open, first: bool) -> None:
        self.ask, self.node, self.first = ask, node, first
        self.new = ask.release >= R24
        self.t = ask.t(node.machine)
        self.u = self.t if self.new else node.machine.threads  # CPUs that a core counts for
        self.sockets = range(len(node.f))
        self.need = [False] * len(node.f)
        self.lo, self.hi = self._task_bounds()
        self.g = self._cpus_per_gpu()
        self.cap = INFINITE
        self.have = 0

    def run(self, taken: int, nodes_left: int) -> Offer | None:
        """Narrow the node and say what it offers."""
        if self.lo > self.hi or not self._cap_gpus(taken, nodes_left):
            return None
        self._take_sockets()
        want = self._wanted_cores() if self._bound_by_gpus() else None
        if want is None:
            return None
        self._close(want)
        return self._offer(want)

    def _task_bounds(self) -> tuple[int, int]:
        ask = self.ask
        lo, hi = self._tasks_asked()
        hi = min(hi, self.node.open * self.t // ask.cpt)
        return lo, min(hi, ask.n) if ask.release >= R26 and ask.n else hi

    def _tasks_asked(self) -> tuple[int, int]:
        ask = self.ask
        if ask.npn:
            return ask.npn, ask.npn
        if ask.nps:
            return ask.nps, ask.nps * len(self.node.f)
        if ask.q:
            if ask.nodes == ask.nodes_max:
                each = max(1, ask.n // ask.nodes)
                return each, each
            return (ask.q if self.new else ask.n), ask.n
        if ask.one_node and ask.n:
            return ask.n, ask.n
        return (1, 1) if ask.n == ask.nodes else (1, INFINITE)

    def _cpus_per_gpu(self) -> int:
        """g: said, or [24+] in pass 1 what the tasks' CPUs come to where they divide evenly."""
        ask = self.ask
        if ask.cpg or ask.q:
            return ask.cpg or ask.q * ask.cpt
        if not (self.new and self.first and ask.P and ask.n):
            return 0
        if ask.n % ask.P == 0:
            return ask.n // ask.P * ask.cpt
        each, rest = divmod(ask.P, ask.n)
        return ask.cpt // each if rest == 0 and ask.cpt % each == 0 else 0

    def _cap_gpus(self, taken: int, nodes_left: int) -> bool:
        """Sets cap; False where [26] too few GPUs are left for one task."""
        ask = self.ask
        if not (ask.per_sock and ask.release < R26):
            self.cap = self.node.cap
        if not ask.P:
            return True
        rem = ask.P - taken
        if self.new:
            met = ask.per_node or max(1, ask.per_task, ask.per_sock * ask.s)
            rem = met if rem <= 0 else rem - (nodes_left - 1)
        self.cap = min(self.cap, rem)
        if ask.release >= R26 and ask.per_task:
            self.cap = min(self.cap, ask.per_task * self.hi)
            return rem >= ask.per_task * self.lo
        return True

    def _take_sockets(self) -> None:
        """Goes over the sockets, most free cores first: counts their GPUs and marks those that are needed."""
        ask, node, bound = self.ask, self.node, self.ask.enforce or self.first
        keep = math.ceil(max(self.lo, 1) * ask.cpt / self.u)
        self.have, enough = node.any, False
        for s in sorted(self.sockets, key=lambda s: (-len(node.cores[s]), s)):
            c = node.f[s]
            if self.g and bound:
                c = min(c, len(node.cores[s]) * self.u // self.g)
            if node.any + c < max(1, ask.per_sock):
                if ask.enforce or node.any + c < ask.per_sock:
                    node.f[s] = 0
                if self.first:
                    node.close(s, keep)
            if bound and not node.cores[s]:
                continue
            self.have += c
            self.need[s] = (not enough and (c > 0 or not self.new)) or (self.new and node.any > 0)
            if (self.have >= self.cap or self.have >= ask.per_node > 0) and (self.new or not node.any):
                enough = True

    def _bound_by_gpus(self) -> bool:
        """Bounds tasks by GPUs and GPUs by tasks; False where nothing is left."""
        ask, cpus = self.ask, self.node.open * self.t
        self.hi = min(self.hi, cpus // ask.cpt)
        serving = sum(need and (f > 0 or self.node.any > 0) for need, f in zip(self.need, self.node.f, strict=True))
        if ask.nps and ask.one_node and ask.n > ask.nps * serving:
            return False
        if self.g:
            self.have = min(
                self.have, self.cap, cpus // self.g, ask.per_node if self.new and ask.per_node else INFINITE
            )
            if self.have < max(1, ask.per_node, ask.per_task):
                return False
            if self.new:
                enough = self.have * self.g >= max(self.lo * ask.cpt, ask.pn_min)
                self.hi = min(self.hi, self.have * self.g // ask.cpt) if enough else self.lo
        if ask.per_task:
            self.hi = min(self.hi, (min(self.have, self.cap) if self.new else self.have) // ask.per_task)
        if self.new and ask.q:
            self.hi = min(self.hi, self.have * ask.q)
        self.hi -= self.hi % self.lo
        if self.new and ask.q:
            self.have = min(self.have, self.hi // ask.q)
        return self.hi > 0

    def _wanted_cores(self) -> int | None:
        """Cores for the tasks and for the GPUs; None where so many are not open."""
        ask, node = self.ask, self.node
        if ask.enforce or self.first:
            node.cores = [cores if need else [] for cores, need in zip(node.cores, self.need, strict=True)]
        self.hi = min(self.hi, node.open * self.t // ask.cpt)
        if self.hi <= 0:
            return None
        want = math.ceil(self.hi * ask.cpt / self.t)
        if self.g:
            gpus = ask.per_node or ask.per_sock * sum(self.need) or ask.per_task * self.hi or self.have
            want = max(want, math.ceil(self.g * gpus / self.u))
        if ask.enforce:
            want = max(want, sum(self.need))
        return want if want <= node.open else None

    def _close(self, want: int) -> None:
        """Close cores until `want` are open: sockets that are not needed, then evenly from the top."""
        node, need = self.node, self.need
        if not (self.ask.enforce or self.first):
            for s in self.sockets:
                if not need[s]:
                    node.close(s, want)
        while node.open > want:
            s = max((s for s in self.sockets if need[s]), key=lambda s: (len(node.cores[s]), -s))
            node.cores[s].pop()

    def _offer(self, want: int) -> Offer:
        ask, node = self.ask, self.node
        min_cores = want if ask.enforce or (self.new and ask.cpg) else 0
        open_cpus = node.open * self.u
        cpus = open_cpus
        if not ask.cpg:
            cpus = min(cpus, max(self.hi * ask.cpt, self.t * min_cores if self.new else 0))
        gpus = sum(node.f) + node.any
        if self.g:
            gpus = min(gpus, (cpus if self.new else open_cpus) // self.g)
        return Offer(node, cpus, min(gpus, self.have) if self.new else gpus, min_cores, self.hi, self.g)
