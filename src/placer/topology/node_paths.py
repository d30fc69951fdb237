"""What nodes say of themselves, one domain name for each level, turned into chains.

The key of a domain is its *path*: level and name, level and name, root first. So a name that is used again under
another parent is another domain.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from placer import errors, hostlist
from placer.topology import chains


def used_levels(levels: Sequence[str], domains: Mapping[str, Mapping[str, str]], source: str) -> list[str]:
    """The levels that some node names, closest first. Raises ParseError, see `fabric.from_node_domains`."""
    if len(levels) > chains.MAX_LEVELS or len(set(levels)) != len(levels):
        raise errors.ParseError(f"levels must be distinct and at most {chains.MAX_LEVELS}", source=source)
    seen: set[str] = set()
    for node, own in domains.items():
        for name, domain in own.items():
            if name not in levels:
                message = f"node `{node}` names a level `{name}`; the levels are: {', '.join(levels) or 'none'}"
                raise errors.ParseError(message, source=source)
            if domain:
                seen.add(name)
    return [name for name in levels if name in seen]


def read(
    used: Sequence[str], domains: Mapping[str, Mapping[str, str]], source: str, warnings: list[str]
) -> list[tuple[chains.Chain, Sequence[str]]]:
    """Nodes with equal paths together, each group with its chain; `used` levels closest first. Adds to `warnings`."""
    places = dict.fromkeys(hostlist.sort(domains), _Place())
    found: list[str] = []
    for level in reversed(used):
        lacking = [node for node in places if not domains[node].get(level)]
        if lacking:
            found.append(f"{len(lacking)} of {len(places)} nodes name no {level}: {chains.some(lacking)}")
        found += _descend(level, domains, places)
    warnings += [errors.printable(f"{source}: {text}", 300) for text in found]
    members: dict[chains.Key, list[str]] = {}
    for node, place in places.items():
        if place.path:
            members.setdefault(place.path, []).append(node)
    return [(_chain(path, used), nodes) for path, nodes in members.items()]


def name_of(path: chains.Key) -> str:
    """The short name of a domain."""
    return path[-1] if path else "no parent"


class _Place(msgspec.Struct, frozen=True):
    """Where nodes are as far as one knows: a path, and the domains that they name but that may be one of several."""

    path: chains.Key = ()
    unsure: frozenset[tuple[str, str]] = frozenset()

    def told(self) -> frozenset[tuple[str, str]]:
        """Every (level, name) that the nodes say or share."""
        return self.unsure.union(zip(self.path[::2], self.path[1::2], strict=True))


def _descend(level: str, domains: Mapping[str, Mapping[str, str]], places: dict[str, _Place]) -> list[str]:
    """Adds one level to the place of every node that names it; `places` are complete above it. Returns warnings.

    Nodes with equal name and equal path share a domain. A place that lacks levels joins the one fuller path that agrees
    with it; when several agree, the node's domain on this level is unsure and its path stays as it is.
    """
    warnings = []
    by_name: dict[str, dict[_Place, list[str]]] = {}
    for node in places:
        domain = domains[node].get(level)
        if domain:
            by_name.setdefault(domain, {}).setdefault(places[node], []).append(node)
    for domain, groups in by_name.items():
        fuller = _fuller(list(groups))
        full = [place for place in groups if not fuller[place] and not place.unsure]
        if len(full) > 1:
            above = ", ".join(f"`{name_of(path)}`" for path in sorted(place.path for place in full)[:4])
            warnings.append(f"{level} `{domain}` is named under {above}: taken as {len(full)} different ones")
        for place, nodes in groups.items():
            joins = [other for other in fuller[place] if not fuller[other]]
            if not joins and not place.unsure:
                joins = [place]
            if len(joins) == 1:
                found = _Place((*joins[0].path, level, domain))
            else:
                found = _Place(place.path, place.unsure | {(level, domain)})
                many = f"any of {len(joins)}" if joins else "anywhere"
                warnings.append(f"{level} `{domain}` of these nodes may be {many}: {chains.some(nodes)}")
            places.update(dict.fromkeys(nodes, found))
    return warnings


def _fuller(places: Sequence[_Place]) -> dict[_Place, list[_Place]]:
    """For each place, the sure ones that tell more and contradict it nowhere: all that it tells is in them."""
    if len({len(place.path) for place in places}) == 1 and not any(place.unsure for place in places):
        return {place: [] for place in places}
    told = {place: place.told() for place in places}
    having: dict[tuple[str, str], list[_Place]] = {}
    for place in places:
        for pair in () if place.unsure else told[place]:
            having.setdefault(pair, []).append(place)
    # what is told by the fewest leaves least to compare with
    sure = [place for place in places if not place.unsure]
    nearest = {p: min((having.get(pair, []) for pair in told[p]), key=len, default=sure) for p in places}
    return {place: [other for other in nearest[place] if told[place] < told[other]] for place in places}


def _chain(path: chains.Key, levels: Sequence[str]) -> chains.Chain:
    steps = [(levels.index(path[at]), path[: at + 2]) for at in range(0, len(path), 2)]
    return tuple(reversed(steps))
