"""Links of a merge. Each pair once, ends in the order of the joint devices.

Where one part tells NVLink or xGMI and another the PCIe path below it (`topo -m` and `topo -mp`), the former is kept:
both are true. Otherwise the most trusted source decides, and another kind is a contradiction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from placer.topology import types as topo
from placer.topology.readers import merge_facts, merge_trust

_DIRECT: Final = (topo.LinkType.NVLINK, topo.LinkType.XGMI, topo.LinkType.C2C)


class _Told(msgspec.Struct, frozen=True):
    link: topo.Link
    source: str


def links(
    parts: merge_facts.Parts,
    names: Sequence[Mapping[str, str]],
    order: Mapping[str, int],
    findings: merge_trust.Findings,
) -> tuple[topo.Link, ...]:
    """`names` maps each part's device names to the joint ones, `order` tells where those stand."""
    told: dict[tuple[int, int], list[_Told]] = {}
    for at, part in enumerate(parts.parts):
        for link in part.links:
            a, b = names[at].get(link.a), names[at].get(link.b)
            if a is None or b is None or a == b:
                continue
            if order[a] > order[b]:
                a, b = b, a
            source = parts.source(at, "links", f"{link.a},{link.b}")
            found = told.setdefault((order[a], order[b]), [])
            found.append(_Told(msgspec.structs.replace(link, a=a, b=b), source))
    return tuple(_decided(told[pair], findings) for pair in sorted(told))


def _decided(told: list[_Told], findings: merge_trust.Findings) -> topo.Link:
    known = [one for one in told if one.link.type is not topo.LinkType.UNKNOWN] or told
    direct = [one for one in known if one.link.type in _DIRECT]
    candidates = direct or known
    best = candidates[0]
    pair = f"{best.link.a} to {best.link.b}"
    for other in candidates[1:]:
        if other.link.label != best.link.label:
            first = merge_trust.Told(best.link.label, best.source)
            findings.clash("the link", pair, first, merge_trust.Told(other.link.label, other.source))
    findings.origins[f"links[{best.link.a},{best.link.b}]"] = best.source
    rates = [one.link.bandwidth_gbps for one in candidates if one.link.label == best.link.label]
    rate = next((rate for rate in rates if rate is not None), None)
    return msgspec.structs.replace(best.link, bandwidth_gbps=rate)


def no_peer(
    parts: merge_facts.Parts, names: Sequence[Mapping[str, str]], order: Mapping[str, int]
) -> tuple[tuple[str, str], ...]:
    """A pair that one part denies has no peer path, whatever the others leave out."""
    found = set()
    for at, part in enumerate(parts.parts):
        for pair in part.no_peer:
            a, b = (names[at].get(name) for name in pair)
            if a is not None and b is not None:
                found.add((a, b) if order[a] < order[b] else (b, a))
    return tuple(sorted(found, key=lambda pair: (order[pair[0]], order[pair[1]])))
