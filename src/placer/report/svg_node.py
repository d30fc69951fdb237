"""A node as SVG: GPUs in one line, direct links above it, PCIe switches and NICs below it, NUMA nodes around it."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from placer import ranges
from placer.placement import wiring
from placer.report import node_layout, svg_draw
from placer.topology import types as topo

_MARGIN, _HEAD = 16.0, 64.0
_GPU, _GPU_HEIGHT, _GAP = 52.0, 42.0, 10.0
_NIC, _NIC_HEIGHT = 74.0, 20.0
_SWITCH_ZONE = 62.0
_ARC_BASE, _ARC_STEP, _ARC_MOST = 14.0, 13.0, 150.0


class _Slot(msgspec.Struct, frozen=True):
    """Where a row of the layout stands."""

    row: node_layout.Row
    x: float
    width: float
    columns: int  # of NICs


class _Frame(msgspec.Struct, frozen=True):
    title: str
    detail: str
    kind: str
    x: float
    width: float
    slots: tuple[_Slot, ...]


def draw(
    topology: topo.NodeTopology,
    layout: node_layout.Layout,
    free: Collection[int] | None,
    chosen: Collection[int] | None,
) -> str:
    """The drawing; `free` None = what is free is not told."""
    frames = _frames(layout)
    gpu_x = {
        gpu: slot.x + at * (_GPU + _GAP)
        for frame in frames
        for slot in frame.slots
        for at, gpu in enumerate(slot.row.gpus)
    }
    states = {gpu: _state(gpu, layout, free, chosen) for gpu in gpu_x}
    top = _HEAD + _above(layout, gpu_x)
    deepest = max((_nic_lines(slot) for frame in frames for slot in frame.slots), default=0)
    bottom = top + _GPU_HEIGHT + (34 + deepest * (_NIC_HEIGHT + 4) if deepest else 24)
    width = max([360.0, *(frame.x + frame.width + _MARGIN for frame in frames)])
    body: list[str] = []
    for frame in frames:
        body.append(svg_draw.rect(frame.x, top - 10, frame.width, bottom - top + 46, frame.kind, round_=6))
        body.append(svg_draw.text(frame.x + 10, bottom + 14, frame.title, room=frame.width - 14))
        body.append(svg_draw.text(frame.x + 10, bottom + 28, frame.detail, "soft", room=frame.width - 14))
    body += _direct_links(layout, gpu_x, top)
    for frame in frames:
        for at, slot in enumerate(frame.slots):
            body += _below(slot, top + _GPU_HEIGHT, frame.slots[at + 1] if at + 1 < len(frame.slots) else None)
    names = dict(zip(wiring.gres_indices(topology), topology.gpus, strict=True))
    for gpu, x in gpu_x.items():
        body += _gpu(gpu, x, top, states[gpu], names.get(gpu))
    paths = ", ".join(f"{labels} {scope}" for scope, labels in layout.paths)
    head = _header(topology, layout, states)
    body.append(
        svg_draw.text(_MARGIN, bottom + 58, f"PCIe paths: {paths}" if paths else "", "soft", room=width - 2 * _MARGIN)
    )
    return svg_draw.document(width, bottom + 70, f"Topology of node {topology.name}", [*head, *body])


def _state(gpu: int, layout: node_layout.Layout, free: Collection[int] | None, chosen: Collection[int] | None) -> str:
    if chosen is not None and gpu in chosen:
        return "chosen"
    if gpu in layout.broken:
        return "broken"
    if free is None:
        return "plain"
    return "free" if gpu in free else "used"


def _header(topology: topo.NodeTopology, layout: node_layout.Layout, states: dict[int, str]) -> list[str]:
    words = [topology.name, f"{len(states)} GPU{'s' * (len(states) != 1)}", layout.kind, topology.machine or ""]
    out = [svg_draw.text(_MARGIN, 26, " · ".join(dict.fromkeys(word for word in words if word)), "title")]
    counts = [(state, sum(s == state for s in states.values())) for state in ("chosen", "used", "free", "broken")]
    keys, x = svg_draw.legend(_MARGIN, 50, [(state, f"{state} {count}") for state, count in counts if count])
    for wire in layout.wires[:6]:
        lanes = _lanes(wire.label)
        keys.append(svg_draw.path(f"M{x:g} 46h26", "fast", width=lanes))
        keys.append(svg_draw.text(x + 32, 50, wire.label))
        x += 32 + len(wire.label) * svg_draw.CHAR_WIDTH + 16
    return out + keys


def _lanes(label: str) -> float:
    """Line width of a direct link by its lanes."""
    digits = label.removeprefix("NV")
    return 1.0 + 1.6 * min(int(digits), 4) if digits.isdigit() else 2.5


# --- places


def _frames(layout: node_layout.Layout) -> list[_Frame]:
    frames: list[_Frame] = []
    x = _MARGIN
    lines = max((-(-len(r.nics) // _nic_columns(r, 2)) for box in layout.boxes for r in box.rows), default=0)
    boxes = [(box.title, box.detail, "box", box.rows) for box in layout.boxes]
    if layout.loose_nics:
        boxes.append(("NICs near", "no GPU", "loose", (node_layout.Row(nics=layout.loose_nics),)))
    for title, detail, kind, rows in boxes:
        start, slots = x, []
        x += 10
        for row in rows:
            columns = _nic_columns(row, max(lines, 2))
            by_gpus = len(row.gpus) * (_GPU + _GAP) - _GAP
            by_nics = min(columns, len(row.nics)) * (_NIC + 6) - 6
            width = max(by_gpus, by_nics, _GPU)
            slots.append(_Slot(row, x, width, columns))
            x += width + 16
        width = max(x - 16 + 10 - start, 84)
        frames.append(_Frame(title, detail, kind, start, width, tuple(slots)))
        x = start + width + 12
    return frames


def _nic_columns(row: node_layout.Row, lines: int) -> int:
    """NICs side by side: as many as stand under the GPUs; without GPUs so many that `lines` lines hold them."""
    if not row.gpus:
        return max(-(-len(row.nics) // lines), 1)
    return max(round(len(row.gpus) * (_GPU + _GAP) / (_NIC + 6)), 1)


def _nic_lines(slot: _Slot) -> int:
    return -(-len(slot.row.nics) // slot.columns)


def _above(layout: node_layout.Layout, gpu_x: dict[int, float]) -> float:
    """Height of the zone of direct links."""
    arcs = max((_arc_height(gpu_x, pair) for wire in layout.wires for pair in wire.pairs), default=0.0)
    return max(_SWITCH_ZONE if layout.switched else 0.0, arcs * 0.75 + 14)


def _arc_height(gpu_x: dict[int, float], pair: tuple[int, int]) -> float:
    steps = abs(gpu_x[pair[1]] - gpu_x[pair[0]]) / (_GPU + _GAP)
    return min(_ARC_BASE + _ARC_STEP * steps, _ARC_MOST)


# --- parts


def _gpu(gpu: int, x: float, y: float, state: str, known: topo.Gpu | None) -> list[str]:
    facts = [f"GPU {gpu}", {"plain": ""}.get(state, state)]
    if known is not None:
        numa = None if known.numa is None else f"NUMA {ranges.format(known.numa)}"
        cpus = None if known.cpus is None else f"CPUs {ranges.format(known.cpus)}"
        facts += [text for text in (known.model, known.bus_id, known.uuid, numa, cpus) if text]
    letter = svg_draw.LETTERS[state]
    middle = x + _GPU / 2
    return [
        svg_draw.rect(x, y, _GPU, _GPU_HEIGHT, state, title=", ".join(fact for fact in facts if fact), round_=4),
        svg_draw.text(middle, y + (18 if letter else 26), f"GPU {gpu}", f"mid on-{state}"),
        *([svg_draw.text(middle, y + 35, letter, f"mid on-{state}")] if letter else []),
    ]


def _direct_links(layout: node_layout.Layout, gpu_x: dict[int, float], top: float) -> list[str]:
    out: list[str] = []
    for wire in layout.wires:
        for a, b in wire.pairs:
            start, end = (gpu_x[gpu] + _GPU / 2 for gpu in (a, b))
            high = top - _arc_height(gpu_x, (a, b))
            curve = f"M{start:g} {top:g}C{start:g} {high:g} {end:g} {high:g} {end:g} {top:g}"
            out.append(svg_draw.path(curve, "fast", width=_lanes(wire.label), title=f"GPU {a} - GPU {b}: {wire.label}"))
    if layout.switched:
        middles = [gpu_x[gpu] + _GPU / 2 for gpu in layout.switched]
        left, right, y = min(middles) - _GPU / 2, max(middles) + _GPU / 2, top - _SWITCH_ZONE + 8
        for gpu, middle in zip(layout.switched, middles, strict=True):
            title = f"GPU {gpu} - NVSwitch: {layout.switch_label}"
            out.append(svg_draw.path(f"M{middle:g} {y + 22:g}V{top:g}", "fast", width=7, title=title))
        words = f"NVSwitch, {layout.switch_label}"
        out.append(svg_draw.rect(left, y, right - left, 24, "switch", title=f"{words} between each two GPUs", round_=4))
        out.append(svg_draw.text((left + right) / 2, y + 16, words, "mid on-switch"))
    return out


def _below(slot: _Slot, y: float, following: _Slot | None) -> list[str]:
    """The PCIe switch of a row as a bar under its GPUs, a line to the next row where bridges join them, the NICs."""
    out: list[str] = []
    bar = y + 16
    if slot.row.switched:
        centres = [slot.x + at * (_GPU + _GAP) + _GPU / 2 for at in range(len(slot.row.gpus))]
        out += [svg_draw.path(f"M{centre:g} {y:g}V{bar:g}", "pcie") for centre in centres]
        out.append(svg_draw.rect(slot.x, bar, slot.width, 5, "bar", title="PCIe switch"))
        if following is not None and following.row.joined:
            title = "joined by PCIe bridges, without a host bridge"
            out.append(
                svg_draw.path(f"M{slot.x + slot.width:g} {bar + 2.5:g}H{following.x:g}", "pcie", width=1.5, title=title)
            )
    for number, nic in enumerate(slot.row.nics):
        x = slot.x + number % slot.columns * (_NIC + 6)
        top = bar + 14 + number // slot.columns * (_NIC_HEIGHT + 4)
        if slot.row.switched and number < slot.columns:
            out.append(svg_draw.path(f"M{x + min(_NIC, slot.width) / 2:g} {bar + 5:g}V{top:g}", "pcie"))
        out.append(svg_draw.rect(x, top, _NIC, _NIC_HEIGHT, "nic", title=f"NIC {nic}", round_=9))
        out.append(svg_draw.text(x + _NIC / 2, top + 14, nic, "mid soft", room=_NIC - 4))
    return out
