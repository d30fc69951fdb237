"""A fabric as the switches of a file: what `fabric.from_switches` reads, written."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from placer import hostlist
from placer.topology import fabric as fabrics
from placer.topology import types as topo

Spell = Callable[[str], str]
"""A name as the target can read it; "" when nothing of it is left."""


def of(fabric: topo.Fabric, spell: Spell) -> tuple[topo.Switch, ...]:
    """The switches in the order of the fabric: leaves first, natural order of names.

    A domain that is repeated upwards is one switch. Nodes hang on leaves alone: those right below a higher switch get
    a leaf of their own, `<switch>.nodes`. Names that two switches would share get the name of their level before them.
    """
    return tuple(_switches(fabric, spell))


def _switches(fabric: topo.Fabric, spell: Spell) -> Iterator[topo.Switch]:
    children = fabrics.children(fabric)
    names: dict[tuple[int, str], str] = {}
    taken: set[str] = set()
    for domain in fabric.domains:
        below = children.get((domain.level, domain.name), ())
        if [child.name for child in below] == [domain.name] and below[0].nodes == domain.nodes:
            names[domain.level, domain.name] = names[below[0].level, domain.name]
            continue
        level = fabric.levels[domain.level].name
        name = _claim(domain.name, level, spell, taken)
        names[domain.level, domain.name] = name
        inner = [names[child.level, child.name] for child in below]
        direct = fabrics.direct_nodes(domain, below)
        if inner and direct:
            inner.append(_claim(f"{name}.nodes", "leaf", spell, taken))
            yield topo.Switch(inner[-1], nodes=direct, level=0)
        yield topo.Switch(name, nodes=() if inner else direct, switches=hostlist.sort(inner), level=domain.level)


def heights(switches: Sequence[topo.Switch]) -> Mapping[str, int]:
    """Level of each switch by what is below it, 0 = nodes alone; children stand before their parents."""
    found: dict[str, int] = {}
    for switch in switches:
        found[switch.name] = 1 + max((found[child] for child in switch.switches), default=-1)
    return found


def _claim(name: str, level: str, spell: Spell, taken: set[str]) -> str:
    """A name that the target can read and nobody has yet."""
    safe = spell(name) or spell(level) or "switch"
    other = spell(f"{level}-{safe}") or safe
    number, found = 2, safe if safe not in taken else other
    while found in taken:
        found, number = f"{other}-{number}", number + 1
    taken.add(found)
    return found
