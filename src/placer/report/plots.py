"""Plots of a simulation as an SVG file: what stays unallocated, and what is fragmented, against the load.

Policies differ in colour (Okabe and Ito's palette), in dashes and by a label at the end of their line, so that none of
the three is needed to read the other two.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from placer.report import svg_draw
from placer.simulation import report

WIDTH: Final = 980
PANEL: Final = (300, 320)
"""Width and height of the plotting area of one panel, pixels."""

LEFT: Final = 62
TOP: Final = 76
GAP: Final = 190
"""Between two panels: the labels at the line ends and the next axis."""

LINE: Final = 15
"""Least distance of two labels."""

KNEE: Final = 80
"""Below this load every policy places nearly everything; the first panel begins here when there is more."""

_LOOKS: Final = {
    "placer": ("#d55e00", ""),
    "fgd": ("#0072b2", ""),
    "best-fit": ("#009e73", "7 4"),
    "gpu-packing": ("#cc79a7", "2 3"),
    "gpu-clustering": ("#e69f00", "9 3 2 3"),
    "dotprod": ("#56b4e9", "5 5"),
    "random": ("#888888", "1 3"),
}
_OTHER: Final = ("#888888", "4 2 1 2")


class _Series(msgspec.Struct, frozen=True):
    name: str
    points: tuple[tuple[float, float], ...]  # by rising x


class _Axes(msgspec.Struct, frozen=True):
    """A panel's place and its ranges."""

    left: float
    low: float
    high: float
    most: float

    def x(self, value: float) -> float:
        """Pixels from the left."""
        return self.left + (value - self.low) / (self.high - self.low) * PANEL[0]

    def y(self, value: float) -> float:
        """Pixels from the top."""
        return TOP + PANEL[1] - value / self.most * PANEL[1]


def loads(means: Sequence[report.Mean], *, title: str, floor_pct: float | None = None) -> str:
    """Both panels. `floor_pct`: a line for what no policy can beat at the largest load."""
    left = _panel(_series(means, "unallocated_pct", KNEE), "GPUs not allocated, %", LEFT, floor_pct)
    right = _panel(
        _series(means, "fragmented_pct", 0), "GPUs fragmented (FGD's measure), %", LEFT + PANEL[0] + GAP, None
    )
    head = svg_draw.text(LEFT - 40, 26, title, "title", room=WIDTH - LEFT)
    return svg_draw.document(WIDTH, TOP + PANEL[1] + 56, title, [head, *left, *right])


def _series(means: Sequence[report.Mean], field: str, start: int) -> list[_Series]:
    found = []
    beyond = any(m.arrived_pct > start for m in means)
    for policy in dict.fromkeys(m.policy for m in means):
        points = [(float(m.arrived_pct), float(getattr(m, field))) for m in means if m.policy == policy]
        kept = tuple(sorted(p for p in points if p[0] >= start or not beyond))
        if kept:
            found.append(_Series(policy, kept))
    return found


def _panel(series: Sequence[_Series], heading: str, left: float, floor: float | None) -> list[str]:
    if not series:
        return [svg_draw.text(left, TOP + 20, "no runs", "soft")]
    xs = [x for s in series for x, _ in s.points]
    highest = max([1.0, floor or 0.0, *(y for s in series for _, y in s.points)])
    step = _step(highest / 5)
    axes = _Axes(left, min(xs), max(*xs, min(xs) + 1), step * math.ceil(highest / step))
    out = [svg_draw.text(left, TOP - 18, heading), *_grid(axes, step)]
    ends = []
    if floor is not None:
        y = axes.y(floor)
        out.append(_line(f"M{left:.1f} {y:.1f}H{left + PANEL[0]:.1f}", "#777777", "3 3", 1.2))
        ends.append((y, f"floor {floor:.2f}", "#777777"))
    for s in reversed(series):  # the first of the list is drawn last, on top
        colour, dash = _LOOKS.get(s.name, _OTHER)
        d = "M" + "L".join(f"{axes.x(x):.1f} {axes.y(y):.1f}" for x, y in s.points)
        out.append(_line(d, colour, dash, 2.6 if s.name == "placer" else 1.8))
        ends.append((axes.y(s.points[-1][1]), f"{s.name} {s.points[-1][1]:.2f}", colour))
    return out + _labels(ends, left + PANEL[0])


def _grid(axes: _Axes, step: float) -> list[str]:
    out = []
    for i in range(round(axes.most / step) + 1):
        y = axes.y(i * step)
        out.append(_line(f"M{axes.left:.1f} {y:.1f}H{axes.left + PANEL[0]:.1f}", "#999999", "", 0.4))
        out.append(svg_draw.text(axes.left - 30, y + 4, f"{i * step:g}", "soft"))
    across = _step((axes.high - axes.low) / 5)
    first = math.ceil(axes.low / across)
    for i in range(first, math.floor(axes.high / across) + 1):
        x = axes.x(i * across)
        out.append(_line(f"M{x:.1f} {TOP + PANEL[1]}v5", "#999999", "", 1))
        out.append(svg_draw.text(x, TOP + PANEL[1] + 19, f"{i * across:g}", "soft mid"))
    middle = axes.left + PANEL[0] / 2
    out.append(svg_draw.text(middle, TOP + PANEL[1] + 38, "arrived demand, % of the cluster's GPUs", "soft mid"))
    return out


def _labels(ends: Iterable[tuple[float, str, str]], x: float) -> list[str]:
    """A label for each line end, moved apart where they would overlap, each led to its end."""
    ordered = sorted(ends)
    places: list[float] = []
    for y, _, _ in ordered:
        places.append(max(y, places[-1] + LINE) if places else y)
    bottom = TOP + PANEL[1]
    for i in range(len(places) - 1, -1, -1):  # push back what was moved below the panel
        places[i] = min(places[i], bottom - LINE * (len(places) - 1 - i))
    out = []
    for (y, words, colour), place in zip(ordered, places, strict=True):
        out.append(_line(f"M{x + 2:.1f} {y:.1f}L{x + 14:.1f} {place:.1f}h6", colour, "", 1.4))
        out.append(svg_draw.text(x + 24, place + 4, words))
    return out


def _line(d: str, colour: str, dash: str, width: float) -> str:
    dashes = f";stroke-dasharray:{dash}" if dash else ""
    return f'<path d="{d}" style="fill:none;stroke:{colour};stroke-width:{width:g}{dashes};stroke-linejoin:round"/>'


def _step(least: float) -> float:
    """The smallest of 1, 2, 5 times a power of ten that is not below `least`."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(factor * power for factor in (1.0, 2.0, 5.0, 10.0) if factor * power >= least * (1 - 1e-9))
