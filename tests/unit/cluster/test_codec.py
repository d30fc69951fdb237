"""The snapshot document. `WRITTEN` is the example of the contract, value for value."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from placer import errors
from placer.cluster import codec, codec_jobs, codec_topology, types
from placer.topology import types as topo

WRITTEN: dict[str, Any] = {
    "apiVersion": "placer/v1",
    "kind": "ClusterSnapshot",
    "source": {"system": "manual", "version": "", "taken": "2026-01-31T12:00:00Z"},
    "levels": ["leaf", "spine"],
    "nodes": [
        {
            "name": "gpu[01-06]",
            "gpus": {"count": 8, "type": "a100"},
            "machine": "dgx-a100",
            "cpus": 128,
            "memory": "1000G",
            "domains": {"leaf": "leaf1", "spine": "s1"},
            "state": "up",
            "partitions": ["gpu"],
            "features": ["a100", "ib"],
            "labels": {},
        }
    ],
    "jobs": [
        {
            "id": "7",
            "name": "train",
            "user": "u1",
            "state": "running",
            "reason": None,
            "partition": "gpu",
            "priority": 100,
            "preemptible": True,
            "submitted": "2026-01-31T11:00:00Z",
            "time_limit": 3600,
            "request": {
                "nodes": 2,
                "gpus_per_node": 4,
                "ntasks_per_node": 4,
                "cpus_per_task": 8,
                "memory_per_node": "100G",
            },
            "allocations": [{"node": "gpu01", "gpus": [0, 1, 2, 3], "cpus": 32, "memory": "100G"}],
        }
    ],
}
SIX = tuple(f"gpu0{n}" for n in range(1, 7))


def _document(**changes: Any) -> dict[str, Any]:
    return {**copy.deepcopy(WRITTEN), **changes}


def _node(**more: Any) -> dict[str, Any]:
    return _document(levels=[], nodes=[{"name": "n1", **more}], jobs=[])


def _decode(document: object) -> types.ClusterSnapshot:
    return codec.decode(document, source="doc.yaml")


def test_decode_written_snapshot_gives_its_nodes() -> None:
    snapshot = _decode(WRITTEN)
    assert tuple(node.name for node in snapshot.nodes) == SIX
    assert snapshot.source == types.Source("manual", "", 1_769_860_800)
    sixth = snapshot.nodes[5]
    assert [slot.index for slot in sixth.gpus] == list(range(8))
    assert {slot.type for slot in sixth.gpus} == {"a100"}
    assert (sixth.cpus, sixth.memory_mib, sixth.condition) == (128, 1_024_000, types.NodeCondition.UP)
    assert (sixth.partitions, sixth.features, sixth.labels) == (("gpu",), ("a100", "ib"), ())


def test_decode_written_snapshot_gives_its_fabric() -> None:
    fabric = _decode(WRITTEN).topology.fabric
    assert [level.name for level in fabric.levels] == ["leaf", "spine"]
    assert [(d.name, d.level, d.nodes, d.parent) for d in fabric.domains] == [
        ("leaf1", 0, SIX, "s1"),
        ("s1", 1, SIX, None),
    ]


def test_decode_written_snapshot_gives_its_job() -> None:
    (job,) = _decode(WRITTEN).jobs
    assert (job.id, job.name, job.user, job.state) == ("7", "train", "u1", types.JobState.RUNNING)
    assert (job.priority, job.preemptible, job.submitted, job.time_limit) == (100, True, 1_769_857_200, 3600)
    assert job.request == types.JobRequest(
        nodes=2,
        gpus_per_node=4,
        ntasks_per_node=4,
        cpus_per_task=8,
        memory_per_node_mib=102_400,
        partition="gpu",  # the job's own, since the request does not say
        time_limit=3600,
    )
    assert job.allocations == (types.Allocation("gpu01", (0, 1, 2, 3), 4, 32, None, 102_400),)


def test_decode_without_partitions_takes_those_of_the_nodes() -> None:
    assert _decode(WRITTEN).partitions == (types.Partition(name="gpu", nodes=SIX),)


def test_decode_least_document_has_only_names() -> None:
    snapshot = _decode({"apiVersion": "placer/v1", "kind": "ClusterSnapshot", "nodes": [{"name": "n10,n9"}]})
    assert [node.name for node in snapshot.nodes] == ["n9", "n10"]
    assert snapshot.topology == topo.ClusterTopology(nodes=("n9", "n10"), machine_of=(-1, -1))


def test_decode_null_sections_are_empty_ones() -> None:
    empty = dict.fromkeys(
        ("source", "levels", "fabric", "topologies", "jobs", "partitions", "settings", "assumptions", "left_out")
    )
    nulls = dict.fromkeys(("gpus", "domains", "labels", "partitions", "features", "topology", "machine", "sockets"))
    snapshot = _decode(_document(**empty, nodes=[{"name": "n1", **nulls}]))
    assert snapshot.nodes == (types.NodeState("n1"),)


def test_decode_gpus_as_a_list_keeps_what_it_tells() -> None:
    listed = [{"index": 3, "type": "h100", "uuid": "GPU-1", "bus_id": "0000:3b:00.0", "healthy": False}, {"index": 1}]
    assert _decode(_node(gpus=listed)).nodes[0].gpus == (
        types.GpuSlot(1),
        types.GpuSlot(3, "h100", "GPU-1", "0000:3b:00.0", healthy=False),
    )


def test_decode_memory_as_a_number_is_mib() -> None:
    assert _decode(_node(memory=1000)).nodes[0].memory_mib == 1000


def test_decode_gpu_count_of_an_allocation_leaves_indices_unknown() -> None:
    document = _document()
    document["jobs"][0]["allocations"][0]["gpus"] = 3
    assert _decode(document).jobs[0].allocations[0] == types.Allocation("gpu01", None, 3, 32, None, 102_400)


def test_decode_time_limit_in_slurm_form_is_seconds() -> None:
    document = _document()
    document["jobs"][0]["time_limit"] = "1-00:00:00"
    assert _decode(document).jobs[0].time_limit == 86_400


def test_decode_null_in_a_request_is_not_the_jobs_own() -> None:
    document = _document()
    document["jobs"][0]["request"] = {"nodes": 1, "partition": None, "time_limit": None}
    assert _decode(document).jobs[0].request == types.JobRequest(nodes=1)


# --- wiring


def test_decode_unknown_machine_stays_unknown_and_is_said() -> None:
    snapshot = _decode(WRITTEN)
    assert snapshot.topology.machine_of == (-1,) * 6
    assert snapshot.assumptions == ("gpu[01-06]: topology unknown, machine dgx-a100 is not known",)


def test_decode_known_machine_is_asked_with_its_gpu_count() -> None:
    wiring = topo.NodeTopology("dgx-a100", "catalogue")
    asked = []

    def find(name: str, count: int) -> topo.NodeTopology | None:
        asked.append((name, count))
        return wiring

    snapshot = codec.decode(WRITTEN, source="doc", find_machine=find)
    assert asked == [("dgx-a100", 8)]
    assert (snapshot.topology.machines, snapshot.topology.machine_of) == ((wiring,), (0,) * 6)
    assert snapshot.assumptions == ()


def test_decode_topology_file_is_read_once() -> None:
    wiring = topo.NodeTopology("m", "m.txt")
    read = []

    def reader(name: str) -> topo.NodeTopology:
        read.append(name)
        return wiring

    nodes = [{"name": "a", "topology_file": "m.txt"}, {"name": "b", "topology_file": "m.txt"}]
    snapshot = codec.decode(_document(nodes=nodes, jobs=[]), source="doc", read_topology=reader)
    assert (read, snapshot.topology.machine_of) == (["m.txt"], (0, 0))


def test_decode_topology_file_without_a_reader_is_said() -> None:
    snapshot = _decode(_node(topology_file="m.txt"))
    assert snapshot.assumptions == ("n1: topology unknown, its file m.txt was not read",)


def test_decode_inline_topologies_that_are_equal_are_one_machine() -> None:
    inline = {
        "gpus": [
            {"id": "GPU0", "index": 0, "bus_id": "0000:3b:00.0", "numa": [0], "cpus": "0-3,8"},
            {"id": "GPU1", "numa": 1},
        ],
        "nics": [{"id": "NIC0", "name": "mlx5_0"}],
        "links": [
            {"a": "GPU0", "b": "GPU1", "type": "NV12", "bandwidth_gbps": 300},
            {"a": "GPU0", "b": "NIC0", "type": "SOC"},
        ],
        "numa_nodes": [{"id": 0, "cpus": "0-3", "memory_mib": 1024}],
        "switches": [{"id": "sw", "devices": ["GPU0", "NIC0"]}],
        "cores": ["0,8", "1"],
    }
    nodes = [{"name": "a", "topology": inline}, {"name": "b", "topology": copy.deepcopy(inline)}, {"name": "c"}]
    topology = _decode(_document(nodes=nodes, jobs=[])).topology
    assert topology.machine_of == (0, 0, -1)
    assert topology.machines == (
        topo.NodeTopology(
            name="",
            source="doc.yaml",
            gpus=(
                topo.Gpu("GPU0", 0, "0000:3b:00.0", numa=(0,), cpus=(0, 1, 2, 3, 8)),
                topo.Gpu("GPU1", numa=(1,)),
            ),
            nics=(topo.Nic("NIC0", "mlx5_0"),),
            links=(
                topo.Link("GPU0", "GPU1", topo.LinkType.NVLINK, 12, 300.0),
                topo.Link("GPU0", "NIC0", topo.LinkType.SYS),
            ),
            numa_nodes=(topo.NumaNode(0, (0, 1, 2, 3), 1024),),
            switches=(topo.PcieSwitch("sw", ("GPU0", "NIC0")),),
            cores=((0, 8), (1,)),
        ),
    )


def test_decode_node_without_gpus_takes_those_of_its_topology() -> None:
    inline = {"gpus": [{"id": "GPU0", "uuid": "u0", "healthy": False}, {"id": "GPU1", "uuid": "u1"}]}
    assert _decode(_node(topology=inline)).nodes[0].gpus == (
        types.GpuSlot(0, uuid="u0", healthy=False),
        types.GpuSlot(1, uuid="u1"),
    )


def test_topology_document_may_carry_its_header() -> None:
    document = {"apiVersion": "placer/v1", "kind": "NodeTopology", "name": "n", "source": "s"}
    assert codec_topology.decode(document, source="x") == topo.NodeTopology("n", "s")


# --- what contradicts the world is said, not refused


def test_decode_job_on_an_unknown_node_goes_on_and_says_it() -> None:
    document = _document()
    document["jobs"][0]["allocations"].append({"node": "gpu99", "gpus": [0]})
    snapshot = _decode(document)
    assert [a.node for a in snapshot.jobs[0].allocations] == ["gpu01"]
    assert snapshot.left_out == ("job 7: what it holds on node gpu99, which is not listed",)


def test_decode_gpu_held_twice_goes_on_and_says_it() -> None:
    document = _document()
    document["jobs"].append({"id": 8, "state": "running", "allocations": [{"node": "gpu01", "gpus": [3, 4]}]})
    snapshot = _decode(document)
    assert [job.allocations[0].gpus for job in snapshot.jobs] == [(0, 1, 2, 3), (3, 4)]
    assert snapshot.left_out == ("GPU 3 of node gpu01 is held by job 7 and by job 8",)


def test_decode_says_the_same_once_when_read_again() -> None:
    document = _document()
    document["jobs"][0]["allocations"].append({"node": "gpu99", "gpus": [0]})
    document["jobs"].append({"id": 8, "state": "running", "allocations": [{"node": "gpu01", "gpus": [3, 4]}]})
    snapshot = _decode(document)
    assert _decode(codec.encode(snapshot)) == snapshot


# --- what is wrong is told with its path


def _changed(path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    document = _document()
    here: Any = document
    for step in path[:-1]:
        here = here[step]
    here[path[-1]] = value
    return document


NODE = ("nodes", 0)
JOB = ("jobs", 0)


@pytest.mark.parametrize(
    ("change", "value", "path", "words"),
    [
        (("apiVersion",), "placer/v9", "apiVersion", "`placer/v9` is not known; this placer reads: placer/v1"),
        (("apiVersion",), None, "apiVersion", "is missing; this placer reads: placer/v1"),
        (("apiVersion",), 1, "apiVersion", "`1` is not known"),
        (("kind",), "Advice", "kind", "must be `ClusterSnapshot`, not `Advice`"),
        (("nodez",), [], "nodez", "did you mean `nodes`?"),
        (("nodes",), {}, "nodes", "must be a list, not a mapping"),
        (("levels",), "leaf", "levels", "must be a list or null, not text"),
        (
            ("source", "taken"),
            "yesterday",
            "source.taken",
            "must be a moment like `2026-01-31T12:00:00Z`, not `yesterday`",
        ),
        (("source", "sytem"), "x", "source.sytem", "did you mean `system`?"),
        (("settings",), {"a": 1}, "settings.a", "must be text, not a whole number; quote it"),
        ((*NODE,), "gpu01", "nodes[0]", "must be a mapping, not text"),
        ((*NODE,), {"gpus": 8}, "nodes[0]", "lacks the key `name`"),
        ((*NODE, "name"), "gpu[01", "nodes[0].name", "column 4: `[` is not closed"),
        ((*NODE, "name"), "", "nodes[0].name", "names no node"),
        ((*NODE, "name"), "gpu[0-999999999]", "nodes[0].name", "more than 100000 nodes"),
        ((*NODE, "gpus", "count"), "8", "nodes[0].gpus.count", "must be a whole number, not text"),
        ((*NODE, "gpus", "count"), -1, "nodes[0].gpus.count", "must be a whole number >= 0"),
        ((*NODE, "gpus", "count"), 2**70, "nodes[0].gpus.count", "must be a whole number <= 1024"),
        ((*NODE, "gpus", "cuont"), 8, "nodes[0].gpus.cuont", "did you mean `count`?"),
        (
            (*NODE, "gpus"),
            [{"index": 0}, {"index": True}],
            "nodes[0].gpus[1].index",
            "must be a whole number, not true or false",
        ),
        ((*NODE, "gpus"), [{"index": 0}, {"index": 0}], "nodes[0].gpus[1].index", "0 stands twice"),
        ((*NODE, "gpus"), [{"idx": 0}], "nodes[0].gpus[0].idx", "did you mean `index`?"),
        ((*NODE, "gpuz"), 8, "nodes[0].gpuz", "did you mean `gpus`?"),
        ((*NODE, "qqqq"), 8, "nodes[0].qqqq", "known are: name, gpus, machine"),
        ((*NODE, "cpus"), -3, "nodes[0].cpus", "must be a whole number >= 0"),
        ((*NODE, "cpus"), 1.5, "nodes[0].cpus", "must be a whole number, not a decimal number"),
        ((*NODE, "memory"), "1000 bananas", "nodes[0].memory", "must be memory like `100G` or a number of MiB"),
        ((*NODE, "memory"), "-1G", "nodes[0].memory", "must be memory like"),
        ((*NODE, "memory"), -1, "nodes[0].memory", ">= 0"),
        ((*NODE, "state"), "upp", "nodes[0].state", "unknown word `upp`; did you mean `up`?"),
        (
            (*NODE, "domains"),
            {"laef": "l1"},
            "nodes[0].domains.laef",
            "`laef` is not in `levels`; did you mean `leaf`?",
        ),
        ((*NODE, "domains"), {"leaf": 1}, "nodes[0].domains.leaf", "must be text, not a whole number; quote it"),
        ((*NODE, "labels"), {"a.b/c": True}, "nodes[0].labels.a.b/c", "must be text, not true or false; quote it"),
        ((*NODE, "labels"), {1: "x"}, "nodes[0].labels", "keys must be text"),
        ((*NODE, "topology"), "m1", "nodes[0].topology", "`m1` is not under `topologies`; known are: none"),
        ((*NODE, "topology"), {"gpus": [{"id": 1}]}, "nodes[0].topology.gpus[0].id", "must be text"),
        ((*NODE, "topology"), {"kind": "Advice"}, "nodes[0].topology.kind", "is `Advice`, not NodeTopology"),
        (
            (*NODE, "topology"),
            {"links": [{"a": "x", "b": "y", "type": "PXI"}]},
            "nodes[0].topology.links[0].type",
            "unknown link type `PXI`; did you mean `PXB`?",
        ),
        (
            ("topologies",),
            {"m": {"gpus": [{"id": "g", "cpus": "3-x"}]}},
            "topologies.m.gpus[0].cpus",
            "list of numbers",
        ),
        (("topologies",), {"m": {"gpu": []}}, "topologies.m.gpu", "did you mean `gpus`?"),
        ((*NODE, "gpus_used"), [8], "nodes[0].gpus_used", "there is no GPU 8"),
        ((*JOB, "state"), "runing", "jobs[0].state", "did you mean `running`?"),
        ((*JOB, "id"), None, "jobs[0].id", "must be a whole number or text, not null"),
        ((*JOB, "time_limit"), -5, "jobs[0].time_limit", ">= 0"),
        ((*JOB, "time_limit"), "30", "jobs[0].time_limit", "must be seconds, or a time like `1-00:00:00`"),
        ((*JOB, "request", "gpus_per_nod"), 1, "jobs[0].request.gpus_per_nod", "did you mean `gpus_per_node`?"),
        ((*JOB, "request", "workload"), "alreduce", "jobs[0].request.workload", "did you mean `allreduce`?"),
        ((*JOB, "request", "gpu_share"), 0, "jobs[0].request.gpu_share", ">= 1"),
        ((*JOB, "request", "memory_per_gpu"), "x", "jobs[0].request.memory_per_gpu", "must be memory"),
        ((*JOB, "allocations", 0, "gpus"), [0, 8], "jobs[0].allocations[0].gpus", "there is no GPU 8 on node `gpu01`"),
        ((*JOB, "allocations", 0, "gpus"), [0, -1], "jobs[0].allocations[0].gpus[1]", ">= 0"),
        ((*JOB, "allocations", 0, "gpus"), [10**15], "jobs[0].allocations[0].gpus[0]", "<= 1023"),
        ((*JOB, "allocations", 0, "gpus"), [1, 1], "jobs[0].allocations[0].gpus", "names a GPU twice"),
        ((*JOB, "allocations", 0, "gpus"), 9, "jobs[0].allocations[0].gpus", "has 8 GPUs, not 9"),
        ((*JOB, "allocations", 0, "nod"), "x", "jobs[0].allocations[0].nod", "did you mean `node`?"),
        (("partitions",), [{"name": "a"}, {"name": "a"}], "partitions[1].name", "stands twice"),
        (("partitions",), [{"name": "a", "nodes": "x["}], "partitions[0].nodes", "not closed"),
        (("levels",), ["leaf", "leaf", "spine"], "levels", "distinct"),
        (
            ("fabric",),
            {"levels": [{"name": "leaf"}], "domains": []},
            "fabric.levels",
            "names other levels than `levels`",
        ),
        (("fabric",), {"domains": [{"name": "x", "level": "laef"}]}, "fabric.domains[0].level", "did you mean `leaf`?"),
        (
            ("fabric",),
            {"domains": [{"name": "other", "level": "leaf", "nodes": "gpu[01-06]"}]},
            "fabric.domains",
            "does not put node `gpu01` into leaf `leaf1`",
        ),
        (
            ("fabric",),
            {"domains": [{"name": "x", "level": "leaf", "nodes": "a"}, {"name": "y", "level": "leaf", "nodes": "a"}]},
            "fabric.domains",
            "does not put node",
        ),
    ],
)
def test_decode_what_is_wrong_is_told_with_its_path(change: tuple[Any, ...], value: Any, path: str, words: str) -> None:
    with pytest.raises(errors.DocumentError) as caught:
        _decode(_changed(change, value))
    assert caught.value.path == path
    assert words in caught.value.message
    assert caught.value.message.startswith(f"doc.yaml: at `{path}`: ")


@pytest.mark.parametrize("document", [None, [], "text", 3, 1.5, True])
def test_decode_of_no_mapping_is_a_document_error(document: object) -> None:
    with pytest.raises(errors.DocumentError, match="must be a mapping"):
        _decode(document)


@pytest.mark.parametrize(
    ("domains", "path", "words"),
    [
        ([("a", "leaf", "n1", None), ("b", "leaf", "n1", None)], "fabric.domains[1].nodes", "is in `a` already"),
        ([("a", "leaf", "n1", None), ("a", "leaf", "n2", None)], "fabric.domains[1].name", "stands twice"),
        ([("a", "leaf", "n1", "s")], "fabric.domains[0].parent", "there is no `s` one level up"),
        ([("a", "leaf", "n1", "s"), ("s", "spine", "n2", None)], "fabric.domains[0].parent", "`s` lacks nodes of `a`"),
    ],
)
def test_decode_fabric_that_is_no_tree_is_refused(domains: list[tuple[str, ...]], path: str, words: str) -> None:
    listed = [dict(zip(("name", "level", "nodes", "parent"), domain, strict=True)) for domain in domains]
    document = _document(nodes=[{"name": "n[1-2]"}], jobs=[], fabric={"domains": listed})
    with pytest.raises(errors.DocumentError) as caught:
        _decode(document)
    assert (caught.value.path, words in caught.value.message) == (path, True)


def test_decode_node_named_twice_tells_both_places() -> None:
    document = _document(nodes=[{"name": "n[1-3]"}, {"name": "n3"}], jobs=[])
    with pytest.raises(errors.DocumentError, match=r"at `nodes\[1\].name`: node `n3` stands in nodes\[0\] already"):
        _decode(document)


def test_decode_job_id_twice_is_refused() -> None:
    with pytest.raises(errors.DocumentError, match=r"at `jobs\[1\].id`: job `7` stands twice"):
        _decode(_document(jobs=[{"id": "7"}, {"id": 7}]))


def test_decode_too_many_nodes_in_all_is_refused() -> None:
    nodes = [{"name": "a[1-60000]"}, {"name": "b[1-60000]"}]
    with pytest.raises(errors.DocumentError, match=r"nodes\[1\].name.*more than 40000 nodes"):
        _decode(_document(nodes=nodes, jobs=[]))


def test_decode_text_for_a_terminal_is_made_safe() -> None:
    with pytest.raises(errors.DocumentError) as caught:
        _decode(_node(**{"\x1b[2Jgpus": 1}))
    assert "\x1b" not in caught.value.message


# --- writing


def test_encode_ten_thousand_equal_nodes_is_one_entry() -> None:
    nodes = [{"name": "gpu[00001-10000]", "gpus": {"count": 8, "type": "h100"}, "topology": {"gpus": [{"id": "GPU0"}]}}]
    document: Any = codec.encode(_decode(_document(nodes=nodes, jobs=[])))
    assert [entry["name"] for entry in document["nodes"]] == ["gpu[00001-10000]"]
    assert len(document["topologies"]) == 1


def test_encode_keeps_every_key_of_the_contract() -> None:
    document: Any = codec.encode(_decode(WRITTEN))
    node, job = document["nodes"][0], document["jobs"][0]
    assert {key: node[key] for key in WRITTEN["nodes"][0] if key != "machine"} == {
        key: value for key, value in WRITTEN["nodes"][0].items() if key != "machine"
    }
    inherited = {**WRITTEN["jobs"][0]["request"], "partition": "gpu", "time_limit": 3600}
    assert job == {**WRITTEN["jobs"][0], "request": inherited}
    assert {key: document[key] for key in ("apiVersion", "kind", "source", "levels")} == {
        key: WRITTEN[key] for key in ("apiVersion", "kind", "source", "levels")
    }


def test_encode_neighbours_that_differ_stay_apart() -> None:
    nodes = [{"name": "n[1-2]"}, {"name": "n3", "state": "down"}, {"name": "n[4-5]"}]
    document: Any = codec.encode(_decode(_document(nodes=nodes, jobs=[])))
    assert [(n["name"], n["state"]) for n in document["nodes"]] == [("n[1-2]", "up"), ("n3", "down"), ("n[4-5]", "up")]


def test_request_document_error_has_its_path() -> None:
    with pytest.raises(
        errors.DocumentError, match=r"req\.yaml: at `gpuss`: unknown key `gpuss`; did you mean `gpus`\?"
    ):
        codec_jobs.decode_request({"gpuss": 4}, source="req.yaml")
