"""A node as a text picture for terminals: what is wired to what, and which GPUs are free, used or chosen.

States are told by letter and by sign, so that the picture works without colour. Plain text, no escape sequences, at
most WIDTH columns.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Sequence

from placer import errors, ranges
from placer.report import node_layout
from placer.topology import types as topo

WIDTH = 78
_HALF = (WIDTH - 1) // 2
_MARKS = {"chosen": "C*", "used": "U#", "free": "F.", "broken": "X!"}
_MOST_PAIR_LINES = 6


def node(
    topology: topo.NodeTopology | None, *, name: str, gpu_count: int, used: Collection[int], chosen: Collection[int]
) -> str:
    """Draw a node. `gpu_count`, `used` and `chosen` are in gres indices; lines end without a newline at the last.

    A GPU that is chosen counts as chosen even when it is also used. GPUs that the topology calls unhealthy are broken.
    """
    layout = node_layout.of(topology, gpu_count)
    shown = [gpu for box in layout.boxes for row in box.rows for gpu in row.gpus]
    state = {gpu: _state(gpu, used, chosen, layout.broken) for gpu in shown}
    lines = [*_head(name, layout, topology, state), *_boxes(layout, state), *_foot(layout)]
    return "\n".join(line.rstrip() for line in lines)


def _state(gpu: int, used: Collection[int], chosen: Collection[int], broken: Collection[int]) -> str:
    if gpu in chosen:
        return "chosen"
    if gpu in broken:
        return "broken"
    return "used" if gpu in used else "free"


def _head(
    name: str, layout: node_layout.Layout, topology: topo.NodeTopology | None, state: dict[int, str]
) -> Iterator[str]:
    words = [f"{len(state)} GPUs" if len(state) != 1 else "1 GPU", layout.kind]
    if topology is not None and topology.machine:
        words.append(errors.printable(topology.machine, 30))
    yield _cut(f"{errors.printable(name, 30)}: {', '.join(dict.fromkeys(words))}", WIDTH)
    counts = [(what, sum(s == what for s in state.values())) for what in _MARKS]
    legend = [f"{_MARKS[what]} {what} {count}" for what, count in counts if count]
    if legend:
        yield "   ".join(legend)


# --- boxes


def _boxes(layout: node_layout.Layout, state: dict[int, str]) -> Iterator[str]:
    """Two side by side where all of them are narrow enough, else one below the other."""
    digits = len(str(max(state, default=0)))
    half = [_inside(box, state, digits, _HALF - 4) for box in layout.boxes]
    narrow = len(half) > 1 and all(_fits(box) for box in layout.boxes)
    if not narrow:
        for box in layout.boxes:
            yield from _framed(_title(box), _inside(box, state, digits, WIDTH - 4), WIDTH)
        return
    for left, right in itertools.zip_longest(range(0, len(half), 2), range(1, len(half), 2)):
        pair = [at for at in (left, right) if at is not None]
        height = max(len(half[at]) for at in pair)
        drawn = [_framed(_title(layout.boxes[at]), half[at], _HALF, height) for at in pair]
        yield from (" ".join(parts) for parts in zip(*drawn, strict=True))


def _title(box: node_layout.Box) -> str:
    return f"{box.title}, {box.detail}" if box.detail else box.title


def _fits(box: node_layout.Box) -> bool:
    return all(len(row.gpus) <= 5 or len(row.gpus) == 8 for row in box.rows)


def _inside(box: node_layout.Box, state: dict[int, str], digits: int, width: int) -> list[str]:
    """The lines in a box. Rows that share bridges are held together by a bracket at their left."""
    lines: list[str] = []
    brackets = any(row.joined for row in box.rows)
    for at, row in enumerate(box.rows):
        goes_on = at + 1 < len(box.rows) and box.rows[at + 1].joined
        first, later = _bracket(joined=row.joined, goes_on=goes_on) if brackets else ("", "")
        cells = [f"[{gpu:>{digits}} {_MARKS[state[gpu]]}]" for gpu in row.gpus]
        room = width - len(first)
        for number, text in enumerate(_flow([*cells, *row.nics], room)):
            lines.append((later if number else first) + text)
    return lines


def _bracket(*, joined: bool, goes_on: bool) -> tuple[str, str]:
    """What stands before the first line of a row, and before lines that it goes on in."""
    first = {(False, False): "  ", (False, True): "┌ ", (True, True): "├ ", (True, False): "└ "}[joined, goes_on]
    return first, "│ " if goes_on else "  "


def _flow(words: Sequence[str], width: int) -> list[str]:
    """Words with a blank between, broken into lines of at most `width`."""
    lines = [""]
    for word in words:
        word = _cut(word, width)
        if lines[-1] and len(lines[-1]) + 1 + len(word) > width:
            lines.append("")
        lines[-1] += (" " if lines[-1] else "") + word
    return lines


def _framed(title: str, lines: Sequence[str], width: int, height: int = 0) -> list[str]:
    inner = width - 4
    title = _cut(title, inner - 2)
    top = f"┌─ {title} {'─' * (inner - len(title) - 1)}┐"
    body = [*lines, *[""] * (height - len(lines))]
    return [top, *(f"│ {line:<{inner}} │" for line in body), f"└{'─' * (inner + 2)}┘"]


# --- below the boxes


def _foot(layout: node_layout.Layout) -> Iterator[str]:
    if layout.loose_nics:
        yield from _listed("NICs near no GPU: ", layout.loose_nics)
    if layout.switched:
        behind = ranges.format(layout.switched)
        yield _cut(f"NVSwitch joins GPUs {behind}, {layout.switch_label} between each two", WIDTH)
    for wire in layout.wires:
        gpus = sorted({gpu for pair in wire.pairs for gpu in pair})
        if len(gpus) > 2 and len(wire.pairs) == len(gpus) * (len(gpus) - 1) // 2:
            yield _cut(f"{wire.label} between each two of GPUs {ranges.format(gpus)}", WIDTH)
        else:
            yield from _listed(f"{wire.label}: ", [f"{a}-{b}" for a, b in wire.pairs])
    if layout.paths:
        yield _cut("PCIe paths: " + ", ".join(f"{labels} {scope}" for scope, labels in layout.paths), WIDTH)


def _listed(head: str, words: Sequence[str]) -> Iterator[str]:
    lines = _flow(words, WIDTH - len(head))
    if len(lines) > _MOST_PAIR_LINES:
        left_out = sum(len(line.split(" ")) for line in lines[_MOST_PAIR_LINES:])
        lines = [*lines[:_MOST_PAIR_LINES], f"… and {left_out} more"]
    for number, line in enumerate(lines):
        yield (head if number == 0 else " " * len(head)) + line


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: max(width - 1, 0)] + "…"
