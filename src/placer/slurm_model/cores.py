"""Section 3 of the rules: the cores of each socket, which decide the sockets of the GPUs."""

from __future__ import annotations

import dataclasses
import math

from placer.slurm_model import types
from placer.slurm_model.release import R22, R24, R26
from placer.slurm_model.usable import INFINITE, Open


@dataclasses.dataclass(slots=True)
class Offer:
    """What a node offers: open cores and GPUs near each socket (in `node`), CPUs, GPUs and the least cores it gives."""

    node: Open
    cpus: int
    gpus: int = 0
    min_cores: int = 0
    hi: int = INFINITE
    g: int = 0


def without_gpus(ask: types.Ask, whole: Open) -> Offer:
    t, o = ask.t(whole.machine), whole.copy()
    if ask.release >= R24:
        keep = math.ceil(o.open * t // ask.cpt * ask.cpt / t)
        for s in reversed(range(len(o.cores))):
            while o.cores[s] and o.open > keep:
                o.cores[s].pop()
    return Offer(o, o.open * t)


def near_gpus(ask: types.Ask, whole: Open, *, first: bool, taken: int = 0, nodes_left: int = 1) -> Offer | None:
    """`nodes_left`: nodes still wanted, this one included; `taken`: GPUs already taken on other nodes."""
    o = whole.copy()
    bounds = _Bounds(ask, o, first, taken, nodes_left)
    if bounds.lo > bounds.hi or bounds.failed:
        return None
    return bounds.narrow()


class _Bounds:
    def __init__(self, ask: types.Ask, o: Open, first: bool, taken: int, nodes_left: int) -> None:
        self.ask, self.o, self.first = ask, o, first
        self.t = ask.t(o.machine)
        self.u = o.machine.threads if ask.release == R22 else self.t
        self.cpus = o.open * self.t
        self.failed = False
        self.need = [False for s in range(len(o.f))]
        self.lo, self.hi = self._tasks()
        self.met = bool(ask.P) and taken >= ask.P
        self._cap(taken, nodes_left)
        self.g = self._per_gpu()

    def _tasks(self) -> tuple[int, int]:
        ask = self.ask
        lo, hi = 1, INFINITE
        if ask.npn:
            lo = hi = ask.npn
        elif ask.nps:
            lo, hi = ask.nps, ask.nps * len(self.o.f)
        elif ask.q:
            if ask.nodes == ask.nodes_max:
                lo = hi = ask.n // ask.nodes
            else:
                lo, hi = (ask.q if ask.release >= R24 else ask.n), ask.n
        elif ask.one_node and ask.n:
            lo = hi = ask.n
        elif ask.n == ask.nodes:
            lo = hi = 1
        hi = min(hi, self.cpus // ask.cpt)
        if ask.release >= R26 and ask.n:
            hi = min(hi, ask.n)
        return lo, hi

    def _cap(self, taken: int, nodes_left: int) -> None:
        ask, o = self.ask, self.o
        self.cap = INFINITE if ask.per_sock and ask.release < R26 else o.cap
        if not ask.P:
            return
        rem = ask.P - taken - (nodes_left - 1 if ask.release >= R24 else 0)
        if ask.release >= R24 and self.met:
            rem = ask.per_node or max(1, ask.per_task, ask.per_sock * ask.s)
        self.cap = min(self.cap, rem)
        if ask.release >= R26 and ask.per_task:
            self.failed = rem < ask.per_task * self.lo
            self.cap = min(self.cap, ask.per_task * self.hi)

    def _per_gpu(self) -> int:
        ask = self.ask
        if ask.cpg:
            return ask.cpg
        if ask.q:
            return ask.q * ask.cpt
        if ask.release >= R24 and self.first and ask.P and ask.n:
            if ask.n % ask.P == 0:
                return ask.n // ask.P * ask.cpt
            if ask.P % ask.n == 0 and ask.cpt % (ask.P // ask.n) == 0:
                return ask.cpt // (ask.P // ask.n)
        return 0

    def _take_sockets(self) -> int:
        """Goes over the sockets; gives `have`."""
        ask, o, first, g = self.ask, self.o, self.first, self.g
        keep = math.ceil(max(self.lo, 1) * ask.cpt / self.u)
        have, enough = o.any, False
        for s in sorted(range(len(o.f)), key=lambda s: (-len(o.cores[s]), s)):
            c = o.f[s]
            if g and (ask.enforce or first):
                c = min(c, len(o.cores[s]) * self.u // g)
            if o.any + c == 0 or o.any + c < ask.per_sock:
                if ask.enforce or o.any + c < ask.per_sock:
                    o.f[s] = 0
                if first:
                    while o.cores[s] and o.open > keep:
                        o.cores[s].pop()
            if (ask.enforce or first) and not o.cores[s]:
                continue
            have += c
            if ask.release >= R24:
                self.need[s] |= (c > 0 and not enough) or o.any > 0
            else:
                self.need[s] |= not enough
            if (have >= self.cap or have >= ask.per_node > 0) and not (ask.release == R22 and o.any > 0):
                enough = True
        return have

    def narrow(self) -> Offer | None:
        ask, o, g, lo, hi, u, t = self.ask, self.o, self.g, self.lo, self.hi, self.u, self.t
        have = self._take_sockets()
        cpus = o.open * self.t
        hi = min(hi, cpus // ask.cpt)
        if ask.nps and ask.one_node and ask.n > ask.nps * sum(n and (o.any > 0 or f > 0) for n, f in zip(self.need, o.f)):
            return None
        new = ask.release >= R24
        if g:
            have = min(have, self.cap, cpus // g)
            if new and ask.per_node:
                have = min(have, ask.per_node)
            if have < max(1, ask.per_node, ask.per_task):
                return None
            if new:
                hi = lo if have * g < max(lo * ask.cpt, ask.pn_min) else min(hi, have * g // ask.cpt)
        if ask.per_task:
            hi = min(hi, (min(have, self.cap) if new else have) // ask.per_task)
        if new and ask.q:
            hi = min(hi, have * ask.q)
        hi -= hi % lo
        if hi <= 0:
            return None
        if new and ask.q:
            have = min(have, hi // ask.q)
        if ask.enforce or self.first:
            for s, needed in enumerate(self.need):
                if not needed:
                    o.cores[s] = []
        want = math.ceil(hi * ask.cpt / t)
        while want > o.open and hi > 0:
            hi -= 1
            want = math.ceil(hi * ask.cpt / t)
        if hi <= 0:
            return None
        if g:
            wanted = ask.per_node or ask.per_sock * sum(self.need) or ask.per_task * hi or have
            want = max(want, math.ceil(g * wanted / u))
        if ask.enforce:
            want = max(want, sum(self.need))
        if want > o.open:
            return None
        self._close(want)
        min_cores = want if ask.enforce or (new and ask.cpg) else 0
        cpus = o.open * u
        if not ask.cpg:
            cpus = min(cpus, max(hi * ask.cpt, t * min_cores if new else 0))
        gpus = sum(o.f) + o.any
        if g:
            gpus = min(gpus, (cpus if new else o.open * u) // g)
        if new:
            gpus = min(gpus, have)
        return Offer(o, cpus, gpus, min_cores, hi, g)

    def _close(self, want: int) -> None:
        o, need = self.o, self.need
        if not (self.ask.enforce or self.first):
            for s, needed in enumerate(need):
                while not needed and o.cores[s] and o.open > want:
                    o.cores[s].pop()
        while o.open > want:
            s = max((s for s in range(len(need)) if need[s]), key=lambda s: (len(o.cores[s]), -s), default=None)
            if s is None or not o.cores[s]:
                break
            o.cores[s].pop()
