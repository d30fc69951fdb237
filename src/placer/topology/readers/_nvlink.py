"""Links between GPUs from what each GPU tells of its own ports.

Let s(i) be the ports of GPU i towards NVSwitches and t(i, j) those it tells towards GPU j. The pair {i, j} has
    min(s(i), s(j))   lanes when both have ports towards switches: all switches of a node are taken as one full mesh,
    t(i, j)           when t(j, i) is equal or not told,
    unknown           when both are told and differ.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from placer.topology import types as topo
from placer.topology.readers import _text

Pair = tuple[str, str]


def direct(
    gpus: Sequence[str],
    to_switch: Mapping[str, int],
    to_peer: Mapping[Pair, int],
    notes: _text.Notes,
    kind: topo.LinkType = topo.LinkType.NVLINK,
) -> dict[Pair, topo.Link]:
    """The direct link of each pair, keyed in the order of `gpus`. What contradicts itself or looks broken is noted."""
    note_uneven(gpus, to_switch, notes)
    found = {}
    for i, a in enumerate(gpus):
        for b in gpus[i + 1 :]:
            there, back = to_peer.get((a, b), 0), to_peer.get((b, a), 0)
            lanes = min(to_switch.get(a, 0), to_switch.get(b, 0))
            if not lanes and there and back and there != back:
                notes.add(f"{a} tells {there} links to {b}, which tells {back}: their link stays unknown")
            lanes = lanes or (0 if there and back and there != back else max(there, back))
            if lanes:
                shown = lanes if kind is topo.LinkType.NVLINK else 0
                found[a, b] = topo.Link(a, b, kind, shown)
    return found


def note_uneven(gpus: Sequence[str], to_switch: Mapping[str, int], notes: _text.Notes) -> None:
    """Note each GPU that has fewer ports towards the switches than most: its links are down."""
    if not any(to_switch.values()):
        return
    usual = Counter(lanes for lanes in to_switch.values() if lanes).most_common(1)[0][0]
    for gpu in gpus:
        lanes = to_switch.get(gpu, 0)
        if lanes < usual:
            notes.add(f"{gpu} has {lanes} NVLinks to the switches, the others {usual}: {usual - lanes} are down")
