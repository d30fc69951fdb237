"""`placer simulate mapa`: the report, the names of policies, and wrong usage."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest
from click.testing import CliRunner

from placer import errors
from placer.cli import _simulate_mapa

FIXTURE = pathlib.Path(__file__).parents[3] / "fixtures" / "mapa" / "dgx-1v.json"


def _run(*words: str) -> str:
    first = ["--topologies", str(FIXTURE), "--machine", "dgx-1v", "--jobs", "60", "--seeds", "0-2"]
    done = CliRunner().invoke(_simulate_mapa.command, [*first, *words], standalone_mode=False)
    if done.exception is not None:
        raise done.exception
    return done.stdout


def test_report_all_policies_with_gains_over_preserve() -> None:
    report: dict[str, Any] = json.loads(_run("-o", "json"))
    assert report["kind"] == "MapaReport"
    assert [result["policy"] for result in report["results"]] == list(_simulate_mapa.NAMES)
    by_name = {result["policy"]: result for result in report["results"]}
    assert by_name["preserve"]["gain_over_preserve"] == 0
    # The order of the published comparison, in which the means of a DGX-1V are far apart.
    assert by_name["baseline"]["mean"] < by_name["greedy"]["mean"] < by_name["placer"]["mean"]
    assert len(report["runs"]) == 3 * len(_simulate_mapa.NAMES)
    assert _run("-o", "json") == _run("-o", "json")


@pytest.mark.parametrize(
    "words",
    [
        ("--policy", "preserve", "placer"),
        ("--policy", "placer,preserve"),
        ("--policy", "placer", "--policy", "preserve"),
    ],
)
def test_policies_repeated_listed_or_with_commas_are_the_same(words: tuple[str, ...]) -> None:
    report: dict[str, Any] = json.loads(_run(*words, "-o", "json"))
    assert [result["policy"] for result in report["results"]] == ["preserve", "placer"]


def test_look_ahead_of_nothing_is_the_policy_without_the_queue() -> None:
    report: dict[str, Any] = json.loads(_run("--policy", "placer,placer-online", "--look-ahead", "0", "-o", "json"))
    first, second = report["results"]
    assert first["mean"] == second["mean"]
    assert first["gain_over_preserve"] is None


def test_table_names_server_and_policies() -> None:
    text = _run("--policy", "greedy", "--policy", "preserve")
    assert "dgx-1v" in text
    assert "GAIN OVER PRESERVE" in text


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("--policy", "best"), errors.UsageError),
        (("preserve",), errors.UsageError),
        (("--seeds", ""), errors.UsageError),
        (("--seeds", "x"), errors.ParseError),
        (("--machine", "dgx-9"), errors.InputError),
        (("--topologies", "does-not-exist.json"), errors.InputError),
    ],
)
def test_wrong_usage_is_told(words: tuple[str, ...], error: type[errors.PlacerError]) -> None:
    with pytest.raises(error) as caught:
        _run(*words)
    assert caught.value.message
