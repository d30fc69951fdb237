"""Dense integer arrays of a ClusterTopology, for the searches.

Built once for a topology and shared read-only; what changes from question to question (free GPUs, loads) lives in
arrays of the searches that are indexed alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec
import numpy as np
import numpy.typing as npt

from placer import errors
from placer.topology import types as topo

OUTSIDE = -1
"""Position of a node that the topology does not know; every array has a last column for it."""


class TopologyIndex(msgspec.Struct, frozen=True, eq=False):
    """n nodes and L levels, closest first. All arrays are read-only.

    `domain_of[l, i]` is the number of the domain of node i on level l, -1 = none; it counts in `domains[l]`.
    `machine_of[i]` is the wiring of node i, a position in ClusterTopology.machines, -1 = unknown. Both have a column
    n that is -1 throughout: position OUTSIDE selects it, so a node outside the topology is one of which nothing is
    known. `parents[l][d]` is the number on level l + 1 of the domain above domain d, -1 = none.
    """

    nodes: tuple[str, ...]
    levels: tuple[str, ...]
    domain_of: npt.NDArray[np.int32]  # [L, n + 1]
    domains: tuple[tuple[str, ...], ...]  # [L], names on each level
    parents: tuple[npt.NDArray[np.int32], ...]  # [L]
    machine_of: npt.NDArray[np.int32]  # [n + 1]
    positions: Mapping[str, int]

    def position(self, name: str) -> int:
        """The position of a node; OUTSIDE when the topology does not know it."""
        return self.positions.get(name, OUTSIDE)

    def rows(self, names: Iterable[str]) -> npt.NDArray[np.intp]:
        """The position of each name; select with it, as in `domain_of[:, rows(names)]`."""
        return np.array([self.positions.get(name, OUTSIDE) for name in names], dtype=np.intp)

    def level(self, name: str) -> int:
        """The position of a level. Raises RequestError that names the levels."""
        if name not in self.levels:
            known = ", ".join(self.levels) or "none: no fabric is known"
            message = f"no level `{errors.printable(name)}`; the levels are {known}"
            raise errors.RequestError(message, hint="placer topo fabric")
        return self.levels.index(name)

    def members(self, level: int, domain: int) -> npt.NDArray[np.intp]:
        """Positions of the nodes in a domain, ascending."""
        return np.flatnonzero(self.domain_of[level, :-1] == domain)

    def restrict(self, names: Iterable[str]) -> TopologyIndex:
        """The same for some of the nodes, in topology order; numbers of domains and machines stay what they were."""
        wanted = set(names)
        kept = [at for at, name in enumerate(self.nodes) if name in wanted]
        columns = np.array([*kept, len(self.nodes)], dtype=np.intp)
        nodes = tuple(self.nodes[at] for at in kept)
        return TopologyIndex(
            nodes=nodes,
            levels=self.levels,
            domain_of=_fixed(self.domain_of[:, columns]),
            domains=self.domains,
            parents=self.parents,
            machine_of=_fixed(self.machine_of[columns]),
            positions={name: at for at, name in enumerate(nodes)},
        )


def build(topology: topo.ClusterTopology) -> TopologyIndex:
    """Index a topology. Nodes that only the fabric names are left out."""
    positions = {name: at for at, name in enumerate(topology.nodes)}
    levels = topology.fabric.levels
    by_level: list[list[topo.Domain]] = [[] for _ in levels]
    for domain in topology.fabric.domains:
        by_level[domain.level].append(domain)
    numbers = [{domain.name: at for at, domain in enumerate(domains)} for domains in by_level]
    domain_of = np.full((len(levels), len(topology.nodes) + 1), -1, dtype=np.int32)
    for level, domains in enumerate(by_level):
        for number, domain in enumerate(domains):
            where = [positions.get(name, OUTSIDE) for name in domain.nodes]
            domain_of[level, where] = number
    domain_of[:, OUTSIDE] = -1
    above = [*numbers[1:], {}]
    return TopologyIndex(
        nodes=topology.nodes,
        levels=tuple(level.name for level in levels),
        domain_of=_fixed(domain_of),
        domains=tuple(tuple(domain.name for domain in domains) for domains in by_level),
        parents=tuple(
            _fixed(np.array([above[level].get(domain.parent or "", -1) for domain in domains], dtype=np.int32))
            for level, domains in enumerate(by_level)
        ),
        machine_of=_fixed(np.array([*topology.machine_of, -1], dtype=np.int32)),
        positions=positions,
    )


def _fixed(array: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    array.setflags(write=False)
    return array
