"""Switches as a topology file writes them, checked and turned into chains. What is no tree raises ParseError."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from placer import errors
from placer.topology import chains
from placer.topology import types as topo


def read(switches: Sequence[topo.Switch], source: str, warnings: list[str]) -> list[tuple[chains.Chain, Sequence[str]]]:
    """Each switch that holds nodes directly: its chain up to the root, and those nodes. Adds to `warnings`.

    A switch stands one level above its highest child; its key is its name.
    """
    table = _table(switches, source)
    level = _heights(switches, table, source)
    parent = _parents(switches, level, source, warnings)
    warnings += _level_and_child_warnings(switches, level, source)
    groups: dict[str, list[str]] = {}
    for node, switch in _owners(switches, level, parent, source, warnings).items():
        groups.setdefault(switch, []).append(node)
    return [(_chain(switch, level, parent), nodes) for switch, nodes in groups.items()]


def _table(switches: Sequence[topo.Switch], source: str) -> dict[str, topo.Switch]:
    table: dict[str, topo.Switch] = {}
    for switch in switches:
        if switch.name in table:
            first = table[switch.name].line
            raise _at(switch, source, f"switch `{switch.name}` is defined twice, first in line {first or '?'}")
        table[switch.name] = switch
    for switch in switches:
        unknown = next((child for child in switch.switches if child not in table), None)
        if unknown is not None:
            raise _at(switch, source, f"switch `{switch.name}` has a child `{unknown}` that is not defined")
    return table


def _parents(
    switches: Sequence[topo.Switch], level: Mapping[str, int], source: str, warnings: list[str]
) -> dict[str, str]:
    """The parent of each switch; of several, the lowest, and of equally low ones the first.

    Slurm 22.05 takes a switch with two parents without a word, and fat trees are written so.
    """
    parent: dict[str, str] = {}
    for switch in sorted(switches, key=lambda s: level[s.name]):
        for child in dict.fromkeys(switch.switches):
            first = parent.setdefault(child, switch.name)
            if first != switch.name:
                warnings.append(f"{_where(switch, source)} is a second parent of `{child}`; only `{first}` counts")
    return parent


def _heights(switches: Sequence[topo.Switch], table: Mapping[str, topo.Switch], source: str) -> dict[str, int]:
    """Level of each switch: 0 without child switches, else one more than its highest child. Leaves are peeled off."""
    level: dict[str, int] = {}
    waiting = list(switches)
    for _ in range(chains.MAX_LEVELS):
        ready = [switch for switch in waiting if all(child in level for child in switch.switches)]
        level.update({s.name: max((level[child] + 1 for child in s.switches), default=0) for s in ready})
        waiting = [switch for switch in waiting if switch.name not in level]
        if not waiting:
            return level
        if not ready:
            raise _at(waiting[0], source, f"switches form a cycle: {_cycle(waiting[0], table, level)}")
    raise _at(waiting[0], source, f"more than {chains.MAX_LEVELS} levels of switches, or a cycle")


def _cycle(start: topo.Switch, table: Mapping[str, topo.Switch], level: Mapping[str, int]) -> str:
    """A cycle in words; every switch that has no level has a child without one, so walking down must come back."""
    seen: dict[str, int] = {}
    name = start.name
    while name not in seen:
        seen[name] = len(seen)
        name = next(child for child in table[name].switches if child not in level)
    around = [*list(seen)[seen[name] :], name]
    return " > ".join(around if len(around) < 8 else [*around[:6], "…", name])


def _level_and_child_warnings(switches: Sequence[topo.Switch], level: Mapping[str, int], source: str) -> Iterator[str]:
    for switch in switches:
        if switch.level is not None and switch.level != level[switch.name]:
            what = f"is printed with level {switch.level}, but what is below makes it level {level[switch.name]}"
            yield f"{_where(switch, source)} {what}"
        if not switch.nodes and not switch.switches:
            yield f"{_where(switch, source)} has neither nodes nor switches below; left out"


def _owners(
    switches: Sequence[topo.Switch],
    level: Mapping[str, int],
    parent: Mapping[str, str],
    source: str,
    warnings: list[str],
) -> dict[str, str]:
    """Node -> the lowest switch that lists it. The first of two on different branches keeps the node."""
    owner: dict[str, str] = {}
    for switch in sorted(switches, key=lambda s: level[s.name]):
        shared: dict[str, list[str]] = {}
        for node in dict.fromkeys(switch.nodes):
            shared.setdefault(owner.setdefault(node, switch.name), []).append(node)
        direct = shared.pop(switch.name, [])
        for first, nodes in shared.items():
            if not _is_above(switch.name, first, level, parent):
                what = f"repeats nodes of `{first}`, which keeps them: {chains.some(nodes)}"
                warnings.append(f"{_where(switch, source)} {what}")
        if direct and switch.switches:
            what = f"has switches below, but these nodes are on none of them: {chains.some(direct)}"
            warnings.append(f"{_where(switch, source)} {what}")
    return owner


def _is_above(name: str, below: str, level: Mapping[str, int], parent: Mapping[str, str]) -> bool:
    while level[below] < level[name] and below in parent:
        below = parent[below]
    return below == name


def _chain(name: str, level: Mapping[str, int], parent: Mapping[str, str]) -> chains.Chain:
    chain = [(level[name], (name,))]
    while name in parent:
        name = parent[name]
        chain.append((level[name], (name,)))
    return tuple(chain)


def _where(switch: topo.Switch, source: str) -> str:
    return errors.printable(f"{source}:{switch.line or '?'}: switch `{switch.name}`", 200)


def _at(switch: topo.Switch, source: str, message: str) -> errors.ParseError:
    return errors.ParseError(message, source=source, line=switch.line or 1)
