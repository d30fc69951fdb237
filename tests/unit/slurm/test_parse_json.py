"""Shapes of each release's JSON (values by hand from the recordings and the schema notes)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from placer import errors
from placer.slurm import parse_json, parse_json_jobs

SET = {"set": True, "infinite": False, "number": 5}


def one_job(release: str = "24.11.5", **fields: Any) -> Any:
    document = {"meta": {"slurm": {"release": release}}, "jobs": [{"job_id": 7, **fields}]}
    read = parse_json_jobs.jobs(json.dumps(document), source="s")
    assert read is not None
    return read.records[0]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (5, 5),
        ("5", 5),
        (5.0, 5),
        (SET, 5),
        ({**SET, "set": False}, None),
        ({**SET, "infinite": True}, None),
        (None, None),
        (True, None),
        ("five", None),
        (10**300, None),
        ([5], None),
    ],
)
def test_number_of_either_form(value: object, expected: int | None) -> None:
    assert parse_json.number(value) == expected


@pytest.mark.parametrize("state", ["RUNNING", ["RUNNING"], "running"])
def test_jobs_state_of_either_form(state: object) -> None:
    assert one_job(job_state=state).states == ("RUNNING",)


@pytest.mark.parametrize(
    "resources",
    [
        # 22.05
        {"nodes": "n1", "allocated_nodes": [
            {"nodename": "n1", "memory_allocated": 2048,
             "sockets": {"1": {"cores": {"2": "allocated", "3": "unallocated"}}}}]},
        # 23.02, lists instead of objects
        {"nodes": "n1", "allocated_nodes": [
            {"nodename": "n1", "memory_allocated": 2048,
             "sockets": [{"cores": {}}, {"cores": {"2": "allocated"}}]}]},
        # 24.05 and later
        {"nodes": {"list": "n1", "allocation": [
            {"index": 0, "name": "n1", "cpus": {"count": 2}, "memory": {"used": 0, "allocated": 2048},
             "sockets": [{"index": 0, "cores": [{"index": 2, "status": ["UNALLOCATED"]}]},
                         {"index": 1, "cores": [{"index": 2, "status": ["ALLOCATED"]}]}]}]}},
        # the same with states as text
        {"nodes": {"allocation": [
            {"name": "n1", "memory": {"allocated": SET | {"number": 2048}},
             "sockets": [{"index": 1, "cores": [{"index": 2, "status": "ALLOCATED"}]}]}]}},
    ],
    ids=["22.05", "23.02", "24.05", "text-status"],
)  # fmt: skip
def test_jobs_holdings_of_three_shapes(resources: object) -> None:
    job = one_job(job_resources=resources, gres_detail=["gpu:a100:2(IDX:0-1)"], nodes="n1")
    assert [(h.nodes, h.cores, h.memory_mib, h.gres) for h in job.holdings] == [
        (("n1",), ((1, 2),), 2048, "gpu:a100:2(IDX:0-1)")
    ]


def test_jobs_gres_detail_follows_node_list_order() -> None:
    part = {"memory": {"allocated": 1}, "sockets": []}
    resources = {"nodes": {"allocation": [{"name": "n2", **part}, {"name": "n1", **part}]}}
    job = one_job(job_resources=resources, nodes="n[1-2]", gres_detail=["gpu:1(IDX:0)", "gpu:1(IDX:5)"])
    assert {h.nodes[0]: h.gres for h in job.holdings} == {"n1": "gpu:1(IDX:0)", "n2": "gpu:1(IDX:5)"}


def test_jobs_gres_detail_of_other_length_is_not_told() -> None:
    part = {"memory": {"allocated": 1}, "sockets": []}
    resources = {"nodes": {"allocation": [{"name": "n1", **part}, {"name": "n2", **part}]}}
    job = one_job(job_resources=resources, nodes="n[1-2]", gres_detail=["gpu:1(IDX:0)"])
    assert [h.gres for h in job.holdings] == [None, None]


@pytest.mark.parametrize(
    ("release", "shared", "expected"),
    [
        ("22.05.8", "none", True),
        ("22.05.8", None, False),
        ("24.11.5", ["none"], True),
        ("24.11.5", [], False),
        ("26.05.5", [], None),
    ],
)
def test_jobs_exclusive_by_release(release: str, shared: object, expected: bool | None) -> None:
    assert one_job(release, shared=shared).exclusive is expected


def test_jobs_switches_under_old_and_new_name() -> None:
    assert one_job(minimum_switches=2).switches == 2
    assert one_job(required_switches=SET).switches == 5


def test_jobs_lists_and_comma_texts_are_alike() -> None:
    assert one_job(required_nodes=["n1", "n2"]).nodelist == one_job(required_nodes="n1,n2").nodelist == "n1,n2"


def test_jobs_infinite_time_limit_is_none() -> None:
    assert one_job(time_limit={"set": False, "infinite": True, "number": 0}).time_limit is None
    assert one_job(time_limit=SET).time_limit == 300


def test_jobs_of_document_without_jobs_is_none() -> None:
    assert parse_json_jobs.jobs('{"sinfo": []}', source="s") is None


def test_nodes_state_flags_of_22_05_join_the_state() -> None:
    read = parse_json.nodes('{"nodes": [{"name": "n1", "state": "idle", "state_flags": ["DRAIN"]}]}', source="s")
    assert read is not None
    assert read.records[0].states == ("IDLE", "DRAIN")


def test_nodes_cut_off_names_line_column_and_retake() -> None:
    text = '{\n "nodes": [\n  {"name": "n1",\n   "state'
    with pytest.raises(errors.ParseError) as caught:
        parse_json.nodes(text, source="s")
    assert (caught.value.line, caught.value.column) == (4, 10)
    assert caught.value.hint == "scontrol show nodes --json"


def test_nodes_broken_in_the_middle_names_the_place() -> None:
    text = '{"nodes": [\n {"name": "é", "cpus": oops}]}'
    with pytest.raises(errors.ParseError) as caught:
        parse_json.nodes(text, source="s")
    assert (caught.value.line, caught.value.column) == (2, text.split("\n")[1].index("oops") + 1)


@pytest.mark.parametrize("text", ["[]", "7", '{"nodes": 5}', '{"nodes": [5]}', "", "\ud800", "[" * 100_000])
def test_nodes_of_other_json_raises_parse_error(text: str) -> None:
    with pytest.raises(errors.ParseError):
        parse_json.nodes(text, source="s")
