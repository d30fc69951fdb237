"""SVG elements and the one style of all placer's drawings. Text from outside is made printable and escaped here.

Free, used and chosen differ in lightness (so in grey too), in hue (Okabe and Ito's palette, told apart by the
colour-blind), in pattern and in a letter. Dark and light follow the reader's `prefers-color-scheme`. Nothing outside
the file is referred to.
"""

from __future__ import annotations

import html
from collections.abc import Iterable

from placer import errors

_STYLE = """
text{{font:12px system-ui,"DejaVu Sans",Arial,sans-serif;fill:{ink}}}
.title{{font-size:15px;font-weight:600}}.soft{{fill:{soft};font-size:11px}}.mid{{text-anchor:middle}}
.bg{{fill:{paper}}}.box,.domain{{fill:{box};stroke:{line}}}.loose{{fill:none;stroke:{line};stroke-dasharray:5 4}}
.domain-chosen{{fill:{box};stroke:{ink};stroke-width:2.5}}
.free,.plain{{fill:{paper};stroke:{ink}}}.used{{fill:url(#hatch);stroke:{ink}}}
.broken{{fill:{broken};stroke:{ink};stroke-dasharray:3 2}}.chosen{{fill:{chosen};stroke:{ink};stroke-width:3}}
.hatch{{fill:{used}}}.hatch-line{{fill:{used_line}}}.on-used{{fill:{on_used}}}.on-chosen{{fill:#000;font-weight:700}}
.fast{{stroke:{fast};fill:none}}.switch{{fill:{fast}}}.on-switch{{fill:{paper};font-weight:600}}
.pcie{{stroke:{near};fill:none;stroke-width:1.5}}.bar{{fill:{near}}}.nic{{fill:none;stroke:{near}}}
"""
# plain colours and not CSS variables, which many SVG viewers do not know
_LIGHT = {
    "ink": "#1a1a1a",
    "soft": "#555",
    "paper": "#fff",
    "box": "#f2f4f6",
    "line": "#999",
    "broken": "#d0d0d0",
    "chosen": "#e69f00",
    "used": "#5b6b7b",
    "used_line": "#46535f",
    "on_used": "#fff",
    "fast": "#0072b2",
    "near": "#777",
}
_DARK = {
    "ink": "#e8e8e8",
    "soft": "#b0b5bb",
    "paper": "#16191d",
    "box": "#22282f",
    "line": "#6b7178",
    "broken": "#444",
    "chosen": "#e69f00",
    "used": "#8494a4",
    "used_line": "#9fadbb",
    "on_used": "#000",
    "fast": "#56b4e9",
    "near": "#a0a0a0",
}
_CSS = _STYLE.format(**_LIGHT) + "@media (prefers-color-scheme:dark){" + _STYLE.format(**_DARK) + "}"

_HATCH = (
    '<defs><pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    '<rect class="hatch" width="6" height="6"/><rect class="hatch-line" width="2" height="6"/></pattern></defs>'
)

LETTERS = {"free": "F", "used": "U", "chosen": "C", "broken": "X", "plain": ""}
"""The letter of each state; `plain` is a GPU whose state is not told."""

CHAR_WIDTH = 6.7
"""Pixels of a usual character at 12 px, generous."""


def document(width: float, height: float, title: str, body: Iterable[str]) -> str:
    """A whole SVG file of one drawing; `title` names it for screen readers."""
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" '
        f'height="{height:g}" role="img">{named(title)}<style>{_CSS}</style>{_HATCH}'
    )
    return "\n".join([head, rect(0, 0, width, height, "bg"), *body, "</svg>"]) + "\n"


def safe(text: str, limit: int = 200) -> str:
    """Text from outside as it may stand in an element or a quoted attribute."""
    return html.escape(errors.printable(text, limit))


def named(title: str) -> str:
    """The tooltip of the element that it is put into."""
    return f"<title>{safe(title, 400)}</title>" if title else ""


def rect(x: float, y: float, width: float, height: float, kind: str, *, title: str = "", round_: float = 0) -> str:
    """A rectangle of class `kind`."""
    rounded = f' rx="{round_:g}"' if round_ else ""
    place = f'x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}"{rounded}'
    return f'<rect class="{kind}" {place}>{named(title)}</rect>' if title else f'<rect class="{kind}" {place}/>'


def text(x: float, y: float, words: str, kind: str = "", *, room: float | None = None) -> str:
    """Words at a baseline; what does not fit into `room` pixels is cut and told in full by a tooltip."""
    shown = words if room is None else fitting(words, room / 0.9 if kind == "soft" else room)
    attribute = f' class="{kind}"' if kind else ""
    return f'<text x="{x:g}" y="{y:g}"{attribute}>{safe(shown)}{named(words) if shown != words else ""}</text>'


def path(d: str, kind: str, *, width: float | None = None, title: str = "") -> str:
    """A line of class `kind`; `d` is made by the caller of numbers alone."""
    thick = f' style="stroke-width:{width:g}"' if width is not None else ""
    return (
        f'<path class="{kind}" d="{d}"{thick}>{named(title)}</path>'
        if title
        else f'<path class="{kind}" d="{d}"{thick}/>'
    )


def fitting(words: str, room: float) -> str:
    """`words`, cut with `…` to what stands in `room` pixels."""
    limit = max(int(room / CHAR_WIDTH), 1)
    return words if len(words) <= limit else words[: limit - 1] + "…"


def legend(x: float, y: float, states: Iterable[tuple[str, str]]) -> tuple[list[str], float]:
    """(state, words) as boxes with letters in a row; returns the elements and the x behind the last."""
    out: list[str] = []
    for state, words in states:
        out += [rect(x, y - 11, 16, 14, state), text(x + 8, y, LETTERS[state], f"mid on-{state}")]
        out.append(text(x + 22, y, words))
        x += 22 + len(words) * CHAR_WIDTH + 18
    return out, x
