"""What is wrong in switches as a file writes them, every fault with its line, where a reader would stop at the first.

Errors are what no tree can be made of: duplicate names, unknown children, cycles. Warnings are what a reader repairs or
leaves out: two parents, a node on two leaves, nodes beside switches, a switch with nothing below. Notes are fan-outs
that make no sense.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from placer import errors
from placer.topology import chains
from placer.topology import types as topo
from placer.topology.checks import Severity

_OUT_OF_PROPORTION = 4
"""A switch with so many times what is usual below switches of its height is worth a look."""
_MOST_CYCLES = 20


class SwitchFinding(msgspec.Struct, frozen=True):
    """One fault of a switch. `line` is where the source defines it; the text is printable."""

    severity: Severity
    line: int | None
    text: str


def check(switches: Sequence[topo.Switch]) -> tuple[SwitchFinding, ...]:
    """Every finding, by line, errors first within a line; also for switches that are no tree."""
    table: dict[str, topo.Switch] = {}
    found: list[SwitchFinding] = []
    for switch in switches:
        first = table.setdefault(switch.name, switch)
        if first is not switch:
            where = f", first in line {first.line}" if first.line else ""
            found.append(_finding(Severity.ERROR, switch, f"switch `{switch.name}` is defined twice{where}"))
    found += _children(table)
    loops = _cycles(table)
    found += loops
    found += _nodes(table)
    found += _fan_out(table, {} if loops else _heights(table))
    order = {severity: at for at, severity in enumerate(Severity)}
    return tuple(sorted(found, key=lambda entry: (entry.line or 0, order[entry.severity], entry.text)))


def _finding(severity: Severity, switch: topo.Switch, text: str) -> SwitchFinding:
    return SwitchFinding(severity, switch.line, errors.printable(text, 300))


def _children(table: Mapping[str, topo.Switch]) -> Iterator[SwitchFinding]:
    parent: dict[str, str] = {}
    for switch in table.values():
        for child in dict.fromkeys(switch.switches):
            if child not in table:
                text = f"switch `{switch.name}` has a child `{child}` that is not defined"
                yield _finding(Severity.ERROR, switch, text)
                continue
            first = parent.setdefault(child, switch.name)
            if first != switch.name:
                text = f"switch `{child}` has two parents, `{first}` and `{switch.name}`"
                yield _finding(Severity.WARNING, switch, text)


def _cycles(table: Mapping[str, topo.Switch]) -> list[SwitchFinding]:
    """One finding for each cycle that a walk down meets. A stack of iterators instead of recursion."""
    found: list[SwitchFinding] = []
    done: set[str] = set()
    for start in table:
        path: dict[str, None] = {}
        stack: list[tuple[str, Iterator[str]]] = []
        if start not in done:
            path[start] = None
            stack.append((start, iter(table[start].switches)))
        while stack:
            name, children = stack[-1]
            child = next(children, None)
            if child is None:
                done.add(name)
                del path[name]
                stack.pop()
            elif child in path and len(found) < _MOST_CYCLES:
                around = [*list(path)[list(path).index(child) :], child]
                shown = " > ".join(around if len(around) < 8 else [*around[:6], "…", child])
                found.append(_finding(Severity.ERROR, table[child], f"switches form a cycle: {shown}"))
            elif child in table and child not in done and child not in path:
                path[child] = None
                stack.append((child, iter(table[child].switches)))
    return found


def _heights(table: Mapping[str, topo.Switch]) -> dict[str, int]:
    """Level of each switch; those above more than `chains.MAX_LEVELS` are left out."""
    found: dict[str, int] = {}
    waiting = list(table.values())
    for _ in range(chains.MAX_LEVELS):
        ready = [s for s in waiting if all(child in found or child not in table for child in s.switches)]
        found.update({s.name: max((found[c] + 1 for c in s.switches if c in found), default=0) for s in ready})
        waiting = [s for s in waiting if s.name not in found]
    return found


def _nodes(table: Mapping[str, topo.Switch]) -> Iterator[SwitchFinding]:
    """Nodes on two leaves; nodes of a switch with switches below that are on none of these; switches of nothing."""
    leaf_of: dict[str, str] = {}
    for switch in table.values():
        if switch.switches:
            continue
        shared: dict[str, list[str]] = {}
        for node in dict.fromkeys(switch.nodes):
            first = leaf_of.setdefault(node, switch.name)
            if first != switch.name:
                shared.setdefault(first, []).append(node)
        for first, nodes in shared.items():
            text = f"nodes of `{switch.name}` are on `{first}` too: {chains.some(nodes)}"
            yield _finding(Severity.WARNING, switch, text)
        if not switch.nodes:
            yield _finding(Severity.WARNING, switch, f"switch `{switch.name}` has neither nodes nor switches below")
    for switch in table.values():
        lost = [node for node in switch.nodes if node not in leaf_of] if switch.switches else []
        if lost:
            yield _finding(Severity.WARNING, switch, f"nodes of `{switch.name}` are on no leaf: {chains.some(lost)}")


def _fan_out(table: Mapping[str, topo.Switch], height: Mapping[str, int]) -> Iterator[SwitchFinding]:
    counts: dict[int, dict[str, int]] = {}
    for name, at in height.items():
        switch = table[name]
        counts.setdefault(at, {})[name] = len(set(switch.switches)) if switch.switches else len(set(switch.nodes))
    for at, own in counts.items():
        usual = statistics.median(own.values()) if len(own) > 2 else 0
        for name, count in own.items():
            what = "switches" if table[name].switches else "nodes"
            if usual and count > _OUT_OF_PROPORTION * usual:
                text = f"switch `{name}` has {count} {what} below, others of its level {usual:g}"
                yield _finding(Severity.NOTE, table[name], text)
            elif at and count == 1:
                yield _finding(
                    Severity.NOTE, table[name], f"switch `{name}` has a single switch below: it only adds a hop"
                )
