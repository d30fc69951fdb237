"""Scalars that the documents share, with the bounds beyond which a number is a mistake."""

from __future__ import annotations

from typing import Annotated

import msgspec

API_VERSION = "placer/v1"
"""The one version of all documents so far."""

MAX_GPUS = 1024
"""GPUs of one node; every GPU is a bit of a mask. The largest built have 16 (HGX-2) or, as one NVLink domain, 576."""

Index = Annotated[int, msgspec.Meta(ge=0, lt=MAX_GPUS)]
GpuCount = Annotated[int, msgspec.Meta(ge=0, le=MAX_GPUS)]
Number = Annotated[int, msgspec.Meta(ge=0, le=1 << 20)]
"""A CPU, a NUMA node, an index."""
Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 40)]
Positive = Annotated[int, msgspec.Meta(ge=1, le=1 << 40)]
Whole = Annotated[int, msgspec.Meta(ge=-(1 << 53), le=1 << 53)]
Mib = Annotated[int, msgspec.Meta(ge=0, le=1 << 44)]
Memory = Mib | str
"""MiB, or text like `100G`."""
Seconds = Count | str
"""Seconds, or Slurm's form with colons."""


def plain(wire: msgspec.Struct) -> dict[str, object]:
    """A wire struct as builtins."""
    builtins: dict[str, object] = msgspec.to_builtins(wire)
    return builtins
