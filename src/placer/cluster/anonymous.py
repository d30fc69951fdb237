"""A snapshot without the names of people and machines, consistent within itself.

Nodes become `node1` …, users `user1` …, accounts `account1` …, jobs `job1` …; domains keep their level (`leaf1` …).
Everything that placement depends on stays: order, wiring, amounts, states, partitions and features. Free text from the
scheduler (reasons with names, settings, labels) is dropped.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from placer import hostlist
from placer.cluster import types
from placer.topology import types as topo


class _Names:
    """New names in the order of first use."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self.known: dict[str, str] = {}

    def __call__(self, name: str) -> str:
        return self.known.setdefault(name, f"{self.prefix}{len(self.known) + 1}") if name else ""

    def list(self, text: str | None) -> str | None:
        """A node list with its names replaced."""
        return hostlist.fold([self(n) for n in hostlist.expand(text)]) if text else text


def of(snapshot: types.ClusterSnapshot) -> types.ClusterSnapshot:
    """The same snapshot with new names."""
    node, user, account, name = _Names("node"), _Names("user"), _Names("account"), _Names("job")
    for old in snapshot.nodes:
        node(old.name)
    jobs = [_job(job, node, user, account, name) for job in snapshot.jobs]
    return msgspec.structs.replace(
        snapshot,
        topology=_topology(snapshot.topology, node),
        nodes=tuple(
            msgspec.structs.replace(n, name=node(n.name), labels=(), condition_text="", gpus=_gpus(n.gpus))
            for n in snapshot.nodes
        ),
        jobs=tuple(jobs),
        partitions=tuple(msgspec.structs.replace(p, nodes=_all(p.nodes, node)) for p in snapshot.partitions),
        settings=(),
        assumptions=(),
        left_out=(),
    )


def _all(names: Iterable[str], rename: _Names) -> tuple[str, ...]:
    return tuple(rename(n) for n in names)


def _gpus(gpus: tuple[types.GpuSlot, ...]) -> tuple[types.GpuSlot, ...]:
    return tuple(msgspec.structs.replace(gpu, uuid=None) for gpu in gpus)


def _job(job: types.Job, node: _Names, user: _Names, account: _Names, name: _Names) -> types.Job:
    request = msgspec.structs.replace(
        job.request, nodelist=node.list(job.request.nodelist), exclude=node.list(job.request.exclude)
    )
    return msgspec.structs.replace(
        job,
        name=name(job.name),
        user=user(job.user),
        account=account(job.account),
        reason=job.reason.split(",")[0].strip("()") if job.reason else job.reason,
        request=request,
        allocations=tuple(msgspec.structs.replace(a, node=node(a.node)) for a in job.allocations),
    )


def _topology(topology: topo.ClusterTopology, node: _Names) -> topo.ClusterTopology:
    fabric = topology.fabric
    domain = [_Names(level.name) for level in fabric.levels]
    for old in fabric.domains:
        domain[old.level](old.name)
    domains = tuple(
        msgspec.structs.replace(
            d,
            name=domain[d.level](d.name),
            nodes=_all(d.nodes, node),
            parent=domain[d.level + 1](d.parent) if d.parent is not None else None,
            line=None,
        )
        for d in fabric.domains
    )
    machines = tuple(
        msgspec.structs.replace(
            m,
            name=f"machine{i}",
            source="anonymised",
            gpus=tuple(msgspec.structs.replace(g, uuid=None, clique=None) for g in m.gpus),
            warnings=(),
        )
        for i, m in enumerate(topology.machines, 1)
    )
    return msgspec.structs.replace(
        topology,
        nodes=_all(topology.nodes, node),
        machines=machines,
        fabric=msgspec.structs.replace(fabric, domains=domains, warnings=(), kept=None),
    )
