"""Names and speeds in an InfiniBand dump: what a node description says."""

from __future__ import annotations

import re

_LANE_GBITS = {"SDR": 2.5, "DDR": 5, "QDR": 10, "FDR10": 10, "FDR": 14, "EDR": 25, "HDR": 50, "NDR": 100, "XDR": 200}
"""Gbit/s of one lane as vendors name links: 4xNDR is a 400 Gbit/s port (InfiniBand Trade Association roadmap)."""

_RATE = re.compile(r"(?<![A-Za-z0-9])(1|2|4|8|12)x([A-Z]{3}(?:10)?)(?![A-Za-z0-9])")
_HOST = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,251}[A-Za-z0-9])?\Z")
_FACTORY = re.compile(r"MT\d|Mellanox\b|localhost\b|NVIDIA\b|ConnectX", re.IGNORECASE)
"""What an adapter is called that nobody has named."""
_QUOTED = re.compile(r'#\s*(?:[^"]*)"([^"]*)"')
_MANAGED = re.compile(r"[^;]*;([^:;]+)(?::|\Z)")
_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]+")


def rate_gbits(text: str) -> float | None:
    """`lid 647 4xNDR` -> 400.0; None when no speed is told."""
    found = _RATE.search(text)
    lane = _LANE_GBITS.get(found[2]) if found else None
    return None if found is None or lane is None else float(int(found[1]) * lane)


def described(text: str) -> str:
    """The description in the comment of a port line; empty when there is none."""
    found = _QUOTED.search(text)
    return found[1] if found else ""


def host(description: str) -> str | None:
    """`n01 mlx5_5`, `n01 HCA-1` -> n01; None for a description that names no host."""
    words = description.split()
    if not words or _FACTORY.match(words[0]) or not _HOST.match(words[0]):
        return None
    return words[0]


def is_aggregation(description: str) -> bool:
    """Whether it is the SHARP unit inside a switch, which looks like an adapter."""
    return "aggregation node" in description.casefold()


def switch(description: str) -> str:
    """`MF0;leaf1:MQM9701/U1` -> leaf1; other descriptions as they are, made one word; empty when nothing is left."""
    managed = _MANAGED.match(description)
    return _UNSAFE.sub("_", managed[1] if managed else description).strip("_")[:100]
