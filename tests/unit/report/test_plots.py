"""Plots of a simulation: well-formed, escaped, and where the numbers say."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

import pytest

from placer.report import plots
from placer.simulation import report

SVG = "{http://www.w3.org/2000/svg}"


def means(policy: str, last: float) -> list[report.Mean]:
    return [report.Mean(policy, r, max(100.0 - r, last), 0.1, 14.0 - r / 20) for r in range(0, 131, 10)]


def drawn(found: str) -> list[str]:
    return [element.text or "" for element in ET.fromstring(found).iter(SVG + "text")]  # noqa: S314 - our own text


def test_loads_labels_every_line_with_its_last_value() -> None:
    words = drawn(plots.loads([*means("fgd", 4.61), *means("placer", 3.69)], title="t", floor_pct=3.53))
    assert {"fgd 4.61", "placer 3.69", "floor 3.53", "fgd 7.50", "placer 7.50"} <= set(words)


def test_loads_keeps_labels_apart() -> None:
    found = plots.loads([*means("fgd", 4.0), *means("placer", 4.01), *means("random", 4.02)], title="t")
    heights = [float(y) for y in re.findall(r'y="([0-9.]+)">(?:fgd|placer|random) 4', found)]
    assert len(heights) == 3
    assert all(abs(a - b) >= plots.LINE for i, a in enumerate(heights) for b in heights[:i])


def test_loads_escapes_what_comes_from_outside() -> None:
    found = plots.loads([report.Mean("<b>&\x1b", 100, 5.0, 0.0, 5.0)], title="</title><script>")
    assert "<script>" not in found
    assert any(word.startswith("<b>&?") for word in drawn(found))


@pytest.mark.parametrize("series", [[], [report.Mean("fgd", 3, 0.0, 0.0, 0.0)], means("fgd", 0.0)])
def test_loads_of_little_is_still_a_drawing(series: list[report.Mean]) -> None:
    found = plots.loads(series, title="t")
    ET.fromstring(found)  # noqa: S314 - our own text
    assert "nan" not in found
    assert "inf" not in found


def test_loads_draws_a_higher_value_higher() -> None:
    found = plots.loads([*means("fgd", 9.0), *means("placer", 3.0)], title="t")
    height = {name: float(re.search(rf'y="([0-9.]+)">{name} [39]', found)[1]) for name in ("fgd", "placer")}  # type: ignore[index]
    assert height["fgd"] < height["placer"]
