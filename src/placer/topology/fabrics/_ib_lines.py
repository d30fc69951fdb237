"""The lines of an `ibnetdiscover` dump: switches, adapters and the links between their ports.

Switch  65 "S-2c5eab0300b87b40"   # "MF0;leaf1:MQM9701/U1" enhanced port 0 lid 73 lmc 0
[1]     "H-e09d7303007a4bd8"[1](e09d7303007a4bd8)   # "n01 mlx5_5" lid 647 4xNDR
Ca      1 "H-e09d7303007a4bd8"    # "n01 mlx5_5"
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from placer import errors
from placer.topology.fabrics import _ib_names

MAX_LINE = 4096
MAX_LINKS = 2_000_000
_DEVICE = re.compile(r'(Switch|Ca|Rt)\s+\d{1,5}\s+"([^"\s]{1,80})"\s*(?:#\s*"([^"]*)")?')
_PORT = re.compile(
    r'\[(\d{1,5})\](?:\[[^\]]{0,40}\])?(?:\([^)]{0,40}\))?\s*"([^"\s]{1,80})"\[(\d{1,5})\](?:\([^)]{0,40}\))?(.*)'
)
_KEY = re.compile(r"[a-z]+=")
_HINT = "sudo ibnetdiscover > fabric.txt"

_End = tuple[str, str]
"""GUID and port."""


class Switch(msgspec.Struct, frozen=True):
    """A switch by a name that is its own, and the line that defines it."""

    name: str
    line: int


class Network(msgspec.Struct, frozen=True):
    """A dump. All maps are by GUID as printed (`S-…`, `H-…`).

    `down[switch]` is adapter -> Gbit/s of its links, `up[switch]` other switch -> Gbit/s. Where some link tells no
    speed, every link counts 1. Aggregation nodes, which switches have inside, are left out.
    """

    switches: Mapping[str, Switch]
    adapters: frozenset[str]
    hosts: Mapping[str, str]
    down: Mapping[str, Mapping[str, float]]
    up: Mapping[str, Mapping[str, float]]


def recognises(text: str) -> bool:
    """Whether a text looks like such a dump."""
    head = text[:20_000]
    return re.search(r'^(?:Switch|Ca)\s+\d{1,5}\s+"', head, re.MULTILINE) is not None


def read(text: str, source: str) -> Network:
    """Switches, hosts and links of a dump. Raises ParseError for a line that begins like one and is none."""
    dump = _Dump(source)
    for number, line in enumerate(text.split("\n"), start=1):
        if len(line) > MAX_LINE:
            raise _error("a line too long for a discovery dump", source, number, line)
        if line.startswith(("Switch", "Ca", "Rt")):
            dump.device(number, line)
        elif line.startswith("["):
            dump.port(number, line)
        elif line.strip() and not line.startswith("#") and _KEY.match(line) is None:
            raise _error("not a line of an InfiniBand discovery dump", source, number, line)
    if not dump.switches and not dump.adapters:
        raise errors.ParseError("no switch and no adapter", source=source, hint=_HINT)
    return _network(dump)


class _Dump:
    """What the lines so far tell."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.switches: dict[str, tuple[str, int]] = {}  # GUID -> name, line
        self.adapters: dict[str, str] = {}  # GUID -> description
        self.links: dict[tuple[_End, _End], float | None] = {}
        self.current: str | None = None

    def device(self, number: int, line: str) -> None:
        """A line that begins a switch, an adapter or a router."""
        found = _DEVICE.match(line)
        if found is None:
            raise _error('expected like `Switch 65 "S-…" # "name"`', self.source, number, line)
        guid, description = found[2], found[3] or ""
        self.current = guid
        if found[1] == "Ca":
            self.adapters[guid] = description or self.adapters.get(guid, "")
        elif found[1] == "Switch" and guid in self.switches:
            message = f"switch `{errors.printable(guid)}` is defined twice, first in line {self.switches[guid][1]}"
            raise errors.ParseError(message, source=self.source, line=number)
        elif found[1] == "Switch":
            self.switches[guid] = (_ib_names.switch(description), number)

    def port(self, number: int, line: str) -> None:
        """A line of a port: a link is told by both of its ends and counts once."""
        found = _PORT.match(line)
        if found is None or self.current is None:
            raise _error('expected like `[1] "H-…"[1] # "name" lid 5 4xNDR`', self.source, number, line)
        a, b = (self.current, found[1]), (found[2], found[3])
        key = (a, b) if a <= b else (b, a)
        self.links[key] = self.links.get(key) or _ib_names.rate_gbits(found[4])
        if found[2].startswith("H-"):
            self.adapters.setdefault(found[2], _ib_names.described(found[4]))
        if len(self.links) > MAX_LINKS:
            raise _error(f"more than {MAX_LINKS} links", self.source, number, line)


def _network(dump: _Dump) -> Network:
    described, defined, links = dump.adapters, dump.switches, dump.links
    inside = {guid for guid, text in described.items() if _ib_names.is_aggregation(text)}
    adapters = frozenset(described) - inside
    hosts = {guid: host for guid in described if guid in adapters and (host := _ib_names.host(described[guid]))}
    down: dict[str, dict[str, float]] = {guid: {} for guid in defined}
    up: dict[str, dict[str, float]] = {guid: {} for guid in defined}
    told = all(rate is not None for rate in links.values())
    for ((a, _), (b, _)), rate in links.items():
        width = rate if told and rate is not None else 1.0
        for own, other in ((a, b), (b, a)):
            if own in defined and other in adapters:
                down[own][other] = down[own].get(other, 0.0) + width
            elif own in defined and other in defined and own != other:
                up[own][other] = up[own].get(other, 0.0) + width
    return Network(_named(defined), adapters, hosts, down, up)


def _named(defined: dict[str, tuple[str, int]]) -> dict[str, Switch]:
    """Switches by name; the GUID stands in where there is none, and beside one that several share."""
    names = [name for name, _ in defined.values()]
    counts = {name: names.count(name) for name in set(names)} if len(set(names)) < len(names) else {}
    return {
        guid: Switch(name if name and counts.get(name, 1) == 1 else f"{name}-{guid}" if name else guid, line)
        for guid, (name, line) in defined.items()
    }


def _error(message: str, source: str, number: int, line: str) -> errors.ParseError:
    return errors.ParseError(message, source=source, line=number, excerpt=line.strip()[:40], hint=_HINT)
