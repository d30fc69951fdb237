"""The free GPUs of one node while a job's are taken from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from placer.slurm_model import types
from placer.slurm_model.release import R24
from placer.slurm_model.search import Picked

ANY: Final = -1
"""The pool of GPUs that no socket is near to."""


class Pools:
    """GPUs by socket. `k[s]`: cores that the job has on socket s, `K` in all; `chosen` in the order of taking."""

    def __init__(self, ask: types.Ask, picked: Picked, cores: Sequence[Sequence[int]], tasks: int) -> None:
        node = picked.offer.node
        self.ask, self.picked, self.tasks = ask, picked, tasks
        self.machine = node.machine
        self.k = [len(of_socket) for of_socket in cores]
        self.K = sum(self.k)
        self.chosen: list[int] = []
        self._free = {ANY: list(node.gpus_any), **{s: list(pool) for s, pool in enumerate(node.gpus)}}
        self._counters = {i: 0 for pool in self._free.values() for i in pool}
        self._order = sorted(self._counters)
        self.linked = any(self.machine.devices[i].links for i in self._counters)

    @property
    def sockets(self) -> range:
        """All sockets."""
        return range(len(self.k))

    @property
    def used(self) -> list[int]:
        """Sockets that give cores."""
        return [s for s in self.sockets if self.k[s]]

    @property
    def others(self) -> list[int]:
        """Sockets that give none."""
        return [s for s in self.sockets if not self.k[s]]

    def free(self, pool: int) -> list[int]:
        """Free GPUs of a socket or of ANY, ascending."""
        return self._free[pool]

    def links(self, i: int, j: int) -> int:
        """Links between two GPUs; 0 where none are told."""
        links = self.machine.devices[i].links
        return max(0, links[j]) if j < len(links) else 0

    def pick(self, i: int, pool: int) -> None:
        """Take one GPU; its links count for those that stay."""
        self._free[pool].remove(i)
        self.chosen.append(i)
        if self.linked:
            for j in self._order:
                if j not in self.chosen:
                    self._counters[j] += self.links(i, j)

    def take(self, count: int, pool: int) -> int:
        """Take up to `count` GPUs of a pool; gives how many. Lowest index first, if links do not say otherwise.

        [24+] with links: the list of all GPUs is sorted by links to those taken, fewest first, and the search goes on
        at its second entry; so the *least* linked comes next.
        """
        by_links = self.linked and self.ask.release >= R24
        start = 0
        for taken in range(count):
            if by_links:
                self._order.sort(key=lambda i: self._counters[i])
            order = self._order[start:] if by_links else self._free[pool]
            found = next((i for i in order if i in self._free[pool]), None)
            if found is None:
                return taken
            self.pick(found, pool)
            start = 1
        return max(0, count)
