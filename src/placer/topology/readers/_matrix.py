"""A square table of device relations, made symmetric.

Let c(i, j) be the cell that row i tells about column j, undefined where the text does not tell. The pair {i, j} is
    c(i, j)   when c(j, i) is undefined or equal,
    unknown   when both are told and differ: neither is believed, since the nearer could be wrong and the farther too.
An unknown pair is no Link; whoever needs it falls back to the NUMA nodes of the two devices.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from placer.topology import types as topo
from placer.topology.readers import _text

Cells = Mapping[tuple[int, int], tuple[topo.LinkType, int]]
"""(row, column) -> (relation, lanes); positions count the columns of the header."""


def links(devices: Sequence[str], cells: Cells, notes: _text.Notes) -> tuple[topo.Link, ...]:
    """Every pair that is told, once, in header order. Differing halves and missing pairs are noted."""
    pairs = sorted({(min(pair), max(pair)) for pair in cells})
    found = []
    for i, j in pairs:
        there, back = cells.get((i, j)), cells.get((j, i))
        cell = there or back
        if cell is None:
            continue
        link = topo.Link(devices[i], devices[j], *cell)
        if there and back and there != back:
            other = topo.Link(devices[j], devices[i], *back)
            notes.add(f"{link.a} and {link.b} contradict each other ({link.label} and {other.label}): taken as unknown")
        else:
            found.append(link)
    return tuple(found)


def note_missing(devices: Sequence[str], links: Sequence[topo.Link], notes: _text.Notes) -> bool:
    """Whether some pair of devices is not told; noted with how many."""
    total = len(devices) * (len(devices) - 1) // 2
    if len(links) == total:
        return False
    notes.add(f"{total - len(links)} of {total} device pairs are not told: they stay unknown")
    return True
