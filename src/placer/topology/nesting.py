"""Where a grouping of nodes belongs among others: an NVLink domain may be part of a rack, or several racks.

Groupings are node -> name of its group. They nest when every group of the finer one lies in one group of the coarser.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Grouping = Mapping[str, str]


def position(extra: Grouping, levels: Sequence[Grouping]) -> int | None:
    """Where `extra` goes among `levels` (closest first): before that position. None when it nests nowhere.

    The closest of several. Below it a group must lie in one group of `extra` whole, or outside of it whole: else a
    node that `extra` does not name would be drawn into it.
    """
    for at in range(len(levels) + 1):
        below = all(_refines(lower, extra, strict=True) for lower in levels[:at])
        if below and all(_refines(extra, upper, strict=False) for upper in levels[at:]):
            return at
    return None


def same(a: Grouping, b: Grouping) -> bool:
    """Whether two groupings put the same nodes together, whatever the names."""
    return a.keys() == b.keys() and _refines(a, b, strict=True) and _refines(b, a, strict=True)


def _refines(fine: Grouping, coarse: Grouping, *, strict: bool) -> bool:
    """Each group of `fine` in one of `coarse`; nodes that `coarse` does not name count as a group only if `strict`."""
    above: dict[str, str | None] = {}
    for node, group in fine.items():
        parent = coarse.get(node)
        if parent is None and not strict:
            continue
        if above.setdefault(group, parent) != parent:
            return False
    return True
