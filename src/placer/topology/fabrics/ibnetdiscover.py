"""What `ibnetdiscover` prints of an InfiniBand network -> a switch tree.

A node of a rail-optimised network has adapters on several leaf switches, so no single switch stands for its place.
Switches that serve the same nodes are taken together, tier by tier, each group named by its first switch:

- a leaf is a switch that holds more adapters than its neighbour switches on average: a management host that hangs on a
  spine makes no leaf of it;
- the other switches stand one tier above the closest leaf;
- two switches of a tier belong together when they share at least half of what is below the smaller of them;
- what is below several groups belongs to the one with most bandwidth towards it, and that is said.

The oversubscription of a level is that of its narrowest group: bandwidth of the links down over that of the links up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from placer import errors, hostlist
from placer.topology import chains
from placer.topology import fabric as fabrics
from placer.topology import types as topo
from placer.topology.fabrics import _ib_lines

_MOST_PAIRS = 16
"""With how many switches of one node each is compared; those farther along the list are joined by those between."""

Below = Mapping[str, Mapping[str, float]]
"""Switch -> what is below it -> bandwidth towards it, Gbit/s (links, where no speed is told)."""


class _Group(msgspec.Struct, frozen=True):
    """Switches that serve the same things: their name, the switches, what belongs to the group."""

    name: str
    switches: tuple[str, ...]
    members: tuple[str, ...]


def read(text: str, *, source: str) -> topo.Fabric:
    """The switch tree of a dump. Adapters whose description names no host are counted but are no nodes.

    A dump without a switch is a Fabric without levels. Raises ParseError.
    """
    net = _ib_lines.read(text, source)
    warnings: list[str] = []
    switches = _switches(net, warnings)
    made = fabrics.from_switches([switch for tier in switches for switch in tier], source=source)
    if not made.levels:
        warnings.append(f"{len(net.hosts)} adapters with a host's name, and no switch that holds them")
    ratios = _oversubscription(net)
    levels = tuple(
        msgspec.structs.replace(level, oversubscription=ratios[at]) if at < len(ratios) else level
        for at, level in enumerate(made.levels)
    )
    shown = tuple(errors.printable(f"{source}: {text}", 300) for text in warnings)
    return msgspec.structs.replace(made, levels=levels, warnings=(*shown, *made.warnings))


def switches(text: str, *, source: str) -> tuple[topo.Switch, ...]:
    """The groups as switches, for checks. Raises ParseError."""
    return tuple(switch for tier in _switches(_ib_lines.read(text, source), []) for switch in tier)


def _switches(net: _ib_lines.Network, warnings: list[str]) -> list[list[topo.Switch]]:
    tiers = _tiers(net)
    if not tiers:
        return []
    unnamed = len(net.adapters) - len(net.hosts)
    if unnamed:
        warnings.append(f"{unnamed} of {len(net.adapters)} adapters name no host")
    made: list[list[topo.Switch]] = []
    below: Below = {name: _by_host(net, name) for name in tiers[0]}
    inner: list[_Group] = []
    placed: set[str] = set()
    for height, names in enumerate(tiers):
        if height:
            below = {name: _towards(net, name, inner) for name in names}
        groups = _grouped(names, below, net, warnings)
        rows = []
        for group in groups:
            line = net.switches[group.switches[0]].line
            if height:
                direct = {host for name in group.switches for host in _by_host(net, name)} - placed
                rows.append(topo.Switch(group.name, hostlist.sort(direct), group.members, line=line))
                placed |= direct
            else:
                rows.append(topo.Switch(group.name, group.members, line=line))
                placed |= set(group.members)
        made.append(rows)
        inner = groups
    return made


def _tiers(net: _ib_lines.Network) -> list[list[str]]:
    """Switches by their distance from the closest leaf, each tier in natural order of names."""
    held = {name: len(net.down[name]) for name in net.switches}
    tier: list[str] = []
    for name in net.switches:
        near = [held[other] for other in net.up[name] if other in held]
        if held[name] and held[name] * len(near) >= sum(near):
            tier.append(name)
    seen: set[str] = set(tier)
    tiers: list[list[str]] = []
    while tier and len(tiers) < chains.MAX_LEVELS:
        tiers.append(sorted(tier, key=lambda name: hostlist.natural_key(net.switches[name].name)))
        above = dict.fromkeys(other for name in tier for other in net.up[name] if other not in seen)
        seen |= above.keys()
        tier = [name for name in above if name in net.switches]
    return tiers


def _by_host(net: _ib_lines.Network, name: str) -> dict[str, float]:
    found: dict[str, float] = {}
    for adapter, rate in net.down[name].items():
        host = net.hosts.get(adapter)
        if host is not None:
            found[host] = found.get(host, 0.0) + rate
    return found


def _towards(net: _ib_lines.Network, name: str, inner: Sequence[_Group]) -> dict[str, float]:
    """Bandwidth of a switch towards each group of the tier below."""
    return {
        group.name: rate
        for group in inner
        if (rate := sum(net.up[name].get(switch, 0.0) for switch in group.switches)) > 0
    }


def _grouped(names: Sequence[str], below: Below, net: _ib_lines.Network, warnings: list[str]) -> list[_Group]:
    """The groups of a tier, natural order; a group that nothing belongs to is left out."""
    root = _joined(names, below)
    switches: dict[str, list[str]] = {}
    for name in names:
        switches.setdefault(root[name], []).append(name)
    weight: dict[str, dict[str, float]] = {}
    for name in names:
        for child, rate in below[name].items():
            towards = weight.setdefault(child, {})
            towards[root[name]] = towards.get(root[name], 0.0) + rate
    members: dict[str, list[str]] = {}
    several = []
    for child in sorted(weight, key=hostlist.natural_key):
        found = weight[child]
        members.setdefault(max(found, key=lambda group: found[group]), []).append(child)
        if len(found) > 1:
            several.append(child)
    if several:
        warnings.append(f"links to several groups of switches, the widest counts: {chains.some(several)}")
    return [
        _Group(net.switches[own[0]].name, tuple(own), hostlist.sort(members[key]))
        for key, own in switches.items()
        if key in members
    ]


def _joined(names: Sequence[str], below: Below) -> dict[str, str]:
    """Switch -> the first switch of its group: those that share at least half of the smaller one's children."""
    root = {name: name for name in names}

    def find(name: str) -> str:
        while root[name] != name:
            root[name] = root[root[name]]
            name = root[name]
        return name

    order = {name: at for at, name in enumerate(names)}
    for (a, b), shared in _shared(names, below).items():
        if 2 * shared >= min(len(below[a]), len(below[b])):
            first, second = sorted((find(a), find(b)), key=lambda name: order[name])
            root[second] = first
    return {name: find(name) for name in names}


def _shared(names: Iterable[str], below: Below) -> Counter[tuple[str, str]]:
    above: dict[str, list[str]] = {}
    for name in names:
        for child in below[name]:
            above.setdefault(child, []).append(name)
    shared: Counter[tuple[str, str]] = Counter()
    for parents in above.values():
        for at, a in enumerate(parents):
            shared.update((a, b) for b in parents[at + 1 : at + 1 + _MOST_PAIRS])
    return shared


def _oversubscription(net: _ib_lines.Network) -> list[float | None]:
    """For each tier but the last: the largest ratio of any switch of what goes down to what goes up."""
    tiers = _tiers(net)
    height = {name: at for at, tier in enumerate(tiers) for name in tier}
    found: list[float | None] = []
    for at, tier in enumerate(tiers[:-1]):
        ratios = []
        for name in tier:
            up = sum(rate for other, rate in net.up[name].items() if height.get(other, -1) > at)
            inner = sum(rate for other, rate in net.up[name].items() if height.get(other, -1) == at - 1)
            down = sum(net.down[name].values()) + (inner if at else 0.0)
            if up and down:
                ratios.append(down / up)
        found.append(round(max(ratios), 3) if ratios else None)
    return found
