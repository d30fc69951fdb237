"""`placer simulate allocator`: the report, and lines that are no question."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from placer import errors
from placer.cli import _simulate_allocator

FIXTURE = pathlib.Path(__file__).parents[3] / "fixtures" / "allocator" / "cases.jsonl"


def _run(*words: str) -> str:
    done = CliRunner().invoke(_simulate_allocator.command, list(words), standalone_mode=False)
    if done.exception is not None:
        raise done.exception
    return done.stdout


def test_report_fixture_every_possible_answer() -> None:
    report: dict[str, Any] = json.loads(_run(str(FIXTURE), "-o", "json"))
    assert report["kind"] == "AllocatorReport"
    found = {result["id"]: (result["possible"], result["exact"]) for result in report["results"]}
    # Both quads of a DGX-1V are equal, and the allocator does not see NVSwitch links, so a whole socket stays together.
    assert found["dgx-1v 4 of 8"] == ([[0, 1, 2, 3], [4, 5, 6, 7]], False)
    assert found["nvswitch 4 of 7"] == ([[4, 5, 6, 7]], True)
    assert found["bridged pairs 1 of 3"] == ([[0], [1], [2]], False)
    assert found["bridged pairs 2 of 4 with GPU 3"] == ([[2, 3]], True)


def test_report_ordered_one_answer_a_line() -> None:
    report: dict[str, Any] = json.loads(_run(str(FIXTURE), "--ordered", "-o", "json"))
    assert [result["possible"] for result in report["results"]][:3] == [[[0, 1, 2, 3]], [[1, 2]], [[4, 5, 6, 7]]]
    assert all(result["exact"] for result in report["results"])


def test_table_many_answers_are_counted(tmp_path: pathlib.Path) -> None:
    n = 8
    case = {
        "id": "all equal",
        "n": n,
        "p2p": [["SYS"] * n] * n,
        "nv": [[0] * n] * n,
        "available": list(range(n)),
        "size": 2,
    }
    file = tmp_path / "c.jsonl"
    file.write_text(json.dumps(case) + "\n\n")
    assert "0,1 | 0,2 | 0,3 | 0,4 | 0,5 | 0,6 and 22 more" in _run(str(file))


GOOD = json.loads(FIXTURE.read_text().splitlines()[3])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"n": 0}, "`n` is 0"),
        ({"n": 65}, "`n` is 65"),
        ({"n": 3}, "`p2p` is not a matrix of 3 x 3"),
        ({"nv": [[0, 1, 0, 0], [2, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]]}, "`nv` is not symmetric"),
        ({"available": [0, 0]}, "available twice"),
        ({"available": [9]}, "GPU 9"),
        ({"size": "two"}, "Expected `int`"),
        ({"p2p": None}, "Expected `array`"),
    ],
)
def test_faulty_line_is_an_error_with_its_line(tmp_path: pathlib.Path, change: dict[str, object], said: str) -> None:
    file = tmp_path / "c.jsonl"
    file.write_text(json.dumps(GOOD) + "\n" + json.dumps(GOOD | change) + "\n")
    with pytest.raises(errors.ParseError, match=said) as caught:
        _run(str(file), "-o", "json")
    assert caught.value.line == 2
    assert caught.value.hint


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=80) | st.from_regex(r'\{"(id|n|p2p)": ?[\[{"0-9a-z\\]{0,40}\}?'))
def test_any_line_gives_an_answer_or_a_parse_error(line: str) -> None:
    found: int | None = None
    try:
        case, predicted = _simulate_allocator._answer(line, source="x", number=1, ordered=False)
        found = case.n * len(predicted.possible)
    except errors.ParseError as error:
        found = error.line
    assert found >= 1
