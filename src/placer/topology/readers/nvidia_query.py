"""`nvidia-smi --query-gpu=… --format=csv,noheader,nounits`: what the GPUs of a host are."""

from __future__ import annotations

import re
from typing import Final

from placer.topology import types as topo
from placer.topology.readers import _text

FIELDS: Final[tuple[str, ...]] = ("index", "pci.bus_id", "uuid", "name", "memory.total")
"""Fields to query, in this order; every driver since 2013 knows them."""

HINT: Final = f"ask with `nvidia-smi --query-gpu={','.join(FIELDS)} --format=csv,noheader,nounits`"

_BUS_ID = re.compile(r"(?:0000)?([0-9A-Fa-f]{4}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])")


def read(text: str, *, source: str, name: str) -> topo.NodeTopology:
    """GPUs with address, UUID, model and memory; nothing about their wiring (`partial`). Raises ParseError."""
    notes = _text.Notes()
    rows = _text.lines(text)
    gpus: dict[str, topo.Gpu] = {}
    for number, line in enumerate(rows, 1):
        if not line.strip():
            continue
        gpu = _gpu([cell.strip() for cell in line[: _text.MAX_LINE].split(",")])
        if gpu is None or gpu.id in gpus or len(gpus) >= _text.MAX_DEVICES:
            notes.add(f"not a GPU: `{line[:60].strip()}`", line=number)
        else:
            gpus[gpu.id] = gpu
    if not gpus:
        raise _text.not_a_topology(rows, "no GPU is listed", source=source, hint=HINT)
    return topo.NodeTopology(name=name, source=source, gpus=tuple(gpus.values()), partial=True, warnings=notes.texts())


def _gpu(cells: list[str]) -> topo.Gpu | None:
    if len(cells) != len(FIELDS) or not re.fullmatch(r"\d{1,4}", cells[0]):
        return None
    index, bus_id, uuid, model, memory = cells
    address = _BUS_ID.fullmatch(bus_id)
    return topo.Gpu(
        id=f"GPU{int(index)}",
        index=int(index),
        bus_id=address[1].lower() if address else None,
        uuid=uuid if uuid.startswith("GPU-") and uuid.isprintable() else None,
        model=model if model.isprintable() and not model.startswith("[") else None,
        memory_mib=int(memory) if re.fullmatch(r"[1-9]\d{0,8}", memory) else None,
    )
