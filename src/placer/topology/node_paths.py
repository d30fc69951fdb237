"""What nodes say of themselves, one domain name for each level, turned into chains.

The key of a domain is its *path*: level and name, level and name, root first. So a name that is used again under
another parent is another domain.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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
    paths: dict[str, chains.Key] = dict.fromkeys(hostlist.sort(domains), ())
    found: list[str] = []
    for level in reversed(used):
        lacking = [node for node in paths if not domains[node].get(level)]
        if lacking:
            found.append(f"{len(lacking)} of {len(paths)} nodes name no {level}: {chains.some(lacking)}")
        found += _descend(level, domains, paths)
    warnings += [errors.printable(f"{source}: {text}", 300) for text in found]
    members: dict[chains.Key, list[str]] = {}
    for node, path in paths.items():
        if path:
            members.setdefault(path, []).append(node)
    return [(_chain(path, used), nodes) for path, nodes in members.items()]


def name_of(path: chains.Key) -> str:
    """The short name of a domain."""
    return path[-1] if path else "no parent"


def _descend(level: str, domains: Mapping[str, Mapping[str, str]], paths: dict[str, chains.Key]) -> list[str]:
    """Adds one level to the path of every node that names it; `paths` are complete above it. Returns warnings.

    Nodes with equal name and equal path share a domain. A path that lacks levels joins the one fuller path that agrees
    with it; when several agree, the node's place is unknown and its path stays as it is.
    """
    warnings = []
    by_name: dict[str, dict[chains.Key, list[str]]] = {}
    for node in paths:
        domain = domains[node].get(level)
        if domain:
            by_name.setdefault(domain, {}).setdefault(paths[node], []).append(node)
    for domain, parents in by_name.items():
        fuller = _fuller_paths(list(parents))
        full = [path for path in parents if not fuller[path]]
        if len(full) > 1:
            above = ", ".join(f"`{name_of(path)}`" for path in sorted(full)[:4])
            warnings.append(f"{level} `{domain}` is named under {above}: taken as {len(full)} different ones")
        for path, nodes in parents.items():
            joins = [longer for longer in fuller[path] if not fuller[longer]] or [path]
            if len(joins) > 1:
                warnings.append(f"{level} `{domain}` of these nodes may be any of {len(joins)}: {chains.some(nodes)}")
            else:
                paths.update(dict.fromkeys(nodes, (*joins[0], level, domain)))
    return warnings


def _fuller_paths(paths: Sequence[chains.Key]) -> dict[chains.Key, list[chains.Key]]:
    """For each path, those that tell more and contradict it nowhere: every (level, name) of it is in them."""
    if len({len(path) for path in paths}) == 1:
        return {path: [] for path in paths}
    pairs = {path: frozenset(zip(path[::2], path[1::2], strict=True)) for path in paths}
    having: dict[tuple[str, str], list[chains.Key]] = {}
    for path in paths:
        for pair in pairs[path]:
            having.setdefault(pair, []).append(path)
    # the lowest pair of a path leaves few to compare with
    nearest = {path: having[path[-2], path[-1]] if path else list(paths) for path in paths}
    return {path: [other for other in nearest[path] if pairs[path] < pairs[other]] for path in paths}


def _chain(path: chains.Key, levels: Sequence[str]) -> chains.Chain:
    steps = [(levels.index(path[at]), path[: at + 2]) for at in range(0, len(path), 2)]
    return tuple(reversed(steps))
