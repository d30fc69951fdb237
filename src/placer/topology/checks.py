"""What looks wrong in a node's wiring or in a fabric. Findings are told, never repaired; the readers' own warnings are
not repeated.
"""

from __future__ import annotations

import enum
import statistics
from collections.abc import Collection, Iterable, Iterator, Sequence

import msgspec

from placer import errors, hostlist
from placer.topology import fabric as fabrics
from placer.topology import labels as labelled
from placer.topology import links
from placer.topology import types as topo


class Severity(enum.StrEnum):
    """How much a finding matters."""

    ERROR = "error"  # contradicts itself: what is built on it may be wrong
    WARNING = "warning"  # probably a fault, or something that placement cannot take into account
    NOTE = "note"  # unusual, maybe meant so


class Finding(msgspec.Struct, frozen=True):
    """One thing that looks wrong. `where` names devices, nodes or domains; all text is printable."""

    severity: Severity
    text: str
    where: str


def check(node: topo.NodeTopology) -> tuple[Finding, ...]:
    """Findings about a node: contradicting and missing links, GPUs that differ from their peers, unknown places."""
    return (*_identity(node), *_relations(node), *_nvlinks(node), *_places(node))


def check_fabric(fabric: topo.Fabric, nodes: Collection[str]) -> tuple[Finding, ...]:
    """Findings about a fabric over a cluster of `nodes`; with no nodes only the fabric itself is looked at."""
    if not fabric.domains:
        return (_finding(Severity.NOTE, "no fabric is known", nodes),) if nodes else ()
    return (*_tree(fabric), *_coverage(fabric, nodes), *_islands(fabric), *_fan_out(fabric))


def _finding(severity: Severity, text: str, where: Iterable[str]) -> Finding:
    return Finding(severity, errors.printable(text, 200), errors.printable(hostlist.fold(where), 120))


# --- a node


def _identity(node: topo.NodeTopology) -> Iterator[Finding]:
    ids = [*(gpu.id for gpu in node.gpus), *(nic.id for nic in node.nics)]
    repeated = {name for name in ids if ids.count(name) > 1} if len(set(ids)) < len(ids) else set()
    if repeated:
        yield _finding(Severity.ERROR, "devices share a name", repeated)
    strangers = {name for link in node.links for name in (link.a, link.b)} - set(ids)
    if strangers:
        yield _finding(Severity.ERROR, "links lead to devices that are not listed", strangers)
    dead = [gpu.id for gpu in node.gpus if gpu.healthy is False]
    if dead:
        yield _finding(Severity.ERROR, f"{len(dead)} of {len(node.gpus)} GPUs are not healthy", dead)


def _relations(node: topo.NodeTopology) -> Iterator[Finding]:
    """Pairs that are told in two ways, or not at all."""
    told: dict[frozenset[str], set[str]] = {}
    for link in node.links:
        told.setdefault(frozenset((link.a, link.b)), set()).add(link.label)
    for pair, labels in told.items():
        if len(labels) > 1:
            yield _finding(Severity.ERROR, f"the two directions differ: {' and '.join(sorted(labels))}", pair)
        if len(pair) == 1:
            yield _finding(Severity.ERROR, "a device is linked to itself", pair)
    ids = [gpu.id for gpu in node.gpus]
    lacking = [name for name in ids if any(frozenset((name, peer)) not in told for peer in ids if peer != name)]
    if lacking and len(lacking) == len(ids) and not any(len(pair & set(ids)) == 2 for pair in told):
        yield _finding(Severity.WARNING, "nothing is known of the links between the GPUs", lacking)
    elif lacking:
        yield _finding(Severity.WARNING, "some links between these GPUs are not told", lacking)


def _nvlinks(node: topo.NodeTopology) -> Iterator[Finding]:
    """GPUs with fewer NVLinks than their peers."""
    used = links.ports_used(node)
    without = [gpu.id for gpu, lanes in zip(node.gpus, used, strict=True) if lanes == 0]
    if any(used) and without:
        yield _finding(Severity.WARNING, f"no NVLink, while {len(used) - len(without)} other GPUs have it", without)
    widest = [0] * len(node.gpus)
    for (i, j), link in links.gpu_pairs(node).items():
        widest[i], widest[j] = max(widest[i], link.lanes), max(widest[j], link.lanes)
    if any(links.behind_switch(node)):
        yield from _fewer(node, widest, Severity.WARNING, "towards the NVSwitch")
    else:
        # a slice of a mesh, as a job or a virtual machine sees it, has uneven sums too
        yield from _fewer(node, used, Severity.NOTE, "to all peers together")


def _fewer(node: topo.NodeTopology, lanes: Sequence[int], severity: Severity, what: str) -> Iterator[Finding]:
    usual = max(lanes, default=0)
    for number in sorted({n for n in lanes if 0 < n < usual}):
        gpus = [gpu.id for gpu, n in zip(node.gpus, lanes, strict=True) if n == number]
        yield _finding(severity, f"{number} NVLinks {what}, while other GPUs have {usual}", gpus)


def _places(node: topo.NodeTopology) -> Iterator[Finding]:
    lost = [gpu.id for gpu in node.gpus if gpu.numa is None and not gpu.cpus]
    if lost:
        yield _finding(Severity.WARNING, "neither NUMA node nor CPUs are known", lost)
    far = []
    gpus = {gpu.id for gpu in node.gpus}
    for nic in node.nics:
        kinds = {link.type for link in node.links if nic.id in (link.a, link.b) and gpus & {link.a, link.b}}
        if kinds == {topo.LinkType.SYS}:
            far.append(nic.name or nic.id)
    if far:
        yield _finding(Severity.NOTE, "NICs that are near no GPU", far)


# --- a fabric


def _tree(fabric: topo.Fabric) -> Iterator[Finding]:
    """What a Fabric promises: one domain of a level for each node, and every parent above all of its child."""
    nodes = {(domain.level, domain.name): frozenset(domain.nodes) for domain in fabric.domains}
    if len(nodes) < len(fabric.domains):
        yield _finding(Severity.ERROR, "two domains of a level share a name", ())
    for domain in fabric.domains:
        above = nodes.get((domain.level + 1, domain.parent)) if domain.parent is not None else None
        if domain.parent is not None and (above is None or not above.issuperset(domain.nodes)):
            text = f"lies below `{domain.parent}`, which does not hold all of its nodes"
            yield _finding(Severity.ERROR, text, (domain.name,))
    for level in range(len(fabric.levels)):
        seen: set[str] = set()
        twice: set[str] = set()
        for members in (members for (at, _), members in nodes.items() if at == level):
            twice |= seen & members
            seen |= members
        if twice:
            yield _finding(Severity.ERROR, f"in more than one {fabric.levels[level].name}", twice)


def _coverage(fabric: topo.Fabric, nodes: Collection[str]) -> Iterator[Finding]:
    anywhere = {node for domain in fabric.domains for node in domain.nodes}
    closest = {node for domain in fabric.domains if domain.level == 0 for node in domain.nodes}
    wanted = set(nodes)
    lost = wanted - anywhere
    if lost:
        yield _finding(Severity.WARNING, f"{len(lost)} of {len(wanted)} nodes are in no domain", lost)
    high = (anywhere - closest) & (wanted or anywhere)
    if high:
        yield _finding(
            Severity.WARNING, f"{len(high)} of {len(anywhere)} nodes are in no {fabric.levels[0].name}", high
        )
    strangers = anywhere - wanted
    if wanted and strangers:
        yield _finding(
            Severity.WARNING,
            f"{len(strangers)} of {len(anywhere)} nodes of the fabric are not in the cluster",
            strangers,
        )


def _islands(fabric: topo.Fabric) -> Iterator[Finding]:
    roots = [domain.name for domain in fabric.domains if domain.parent is None]
    # blocks and labels tell who is near; that a switch lies between them goes without saying
    if len(roots) > 1 and fabric.kind == "tree":
        text = f"{len(roots)} islands without a connection that is known"
        yield _finding(Severity.WARNING, text, roots)


def _fan_out(fabric: topo.Fabric) -> Iterator[Finding]:
    """Levels that group nothing, and domains out of proportion to their level."""
    children = fabrics.children(fabric)
    for level, tier in enumerate(fabric.levels):
        if labelled.is_nvlink(tier):
            continue  # as wide as a leaf or a spine, by how the machines are built
        own = [domain for domain in fabric.domains if domain.level == level]
        sizes = [len(domain.nodes) for domain in own]
        if level and all(len(children.get((level, domain.name), ())) == 1 for domain in own):
            yield _finding(Severity.NOTE, f"every {tier.name} has a single {fabric.levels[level - 1].name} below", ())
        elif not level and len(own) > 1 and max(sizes) == 1:
            yield _finding(Severity.NOTE, f"every {tier.name} has a single node", ())
        middle = statistics.median(sizes) if len(sizes) > 2 else 0
        odd = [domain.name for domain in own if middle and len(domain.nodes) > 4 * middle]
        if odd:
            yield _finding(Severity.NOTE, f"more than four times as many nodes as a usual {tier.name}", odd)
