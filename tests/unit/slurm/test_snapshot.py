"""Odd clusters: what a snapshot says, and that it never breaks."""

from __future__ import annotations

import json

import pytest

from placer import errors
from placer.cluster import capacity
from placer.cluster import recording as recordings
from placer.cluster import types as cluster
from placer.slurm import snapshot, snapshot_nodes
from placer.topology import types as topo

NODE = """NodeName={name} CoresPerSocket=4
   CPUAlloc=0 CPUEfctv=8 CPUTot=8
   ActiveFeatures=x
   Gres={gres}
   GresUsed={used}
   RealMemory=1000 AllocMem=0 Sockets=2
   State={state} ThreadsPerCore=1 Weight=1
   Partitions=p
"""
JOB = """JobId={id} JobName=j
   UserId=u(1) Account=(null)
   Priority={priority} Nice=0
   JobState={state} Reason={reason} Dependency=(null)
   Requeue=1 Restarts=0 BatchFlag=1
   Partition=p AllocNode:Sid=h:1
   ReqNodeList=(null) ExcNodeList=(null)
   NodeList={nodes}
   NumNodes={count} NumTasks=1 CPUs/Task=1
{holdings}
   MinCPUsNode=1 MinMemoryNode=0
   OverSubscribe=OK
   {asks}
"""
PARTITION = "PartitionName=p\n   Default=YES\n   Nodes=n[1-2]\n   OverSubscribe={share} PreemptMode=OFF\n   State=UP\n"


def node(name: str = "n1", gres: str = "gpu:a:4", used: str = "gpu:a:0(IDX:N/A)", state: str = "IDLE") -> str:
    return NODE.format(name=name, gres=gres, used=used, state=state) + "\n"


def job(
    number: int = 1,
    state: str = "RUNNING",
    holdings: str = "",
    nodes: str = "n1",
    reason: str = "None",
    priority: int = 5,
    asks: str = "",
    count: str = "1",
) -> str:
    text = JOB.format(
        id=number, state=state, holdings=holdings, nodes=nodes, reason=reason, priority=priority, asks=asks, count=count
    )
    return text + "\n"


def holds(gres: str, where: str = "n1") -> str:
    return f"     Nodes={where} CPU_IDs=0-1 Mem=10 GRES={gres}"


def build(
    nodes: str,
    jobs: str = "",
    *,
    extra: dict[str, str] | None = None,
    topologies: dict[str, topo.NodeTopology] | None = None,
) -> cluster.ClusterSnapshot:
    entries = {"scontrol_show_node_d.txt": nodes, "scontrol_show_job_d.txt": jobs, **(extra or {})}
    return snapshot.build(recordings.Recording("r", tuple(entries.items())), topologies=topologies or {})


# --- nodes


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ("IDLE", "up"),
        ("MIXED+PLANNED", "up"),
        ("ALLOCATED+COMPLETING", "up"),
        ("IDLE+DRAIN", "drained"),
        ("MIXED+DRAIN", "drained"),
        ("DOWN*+DRAIN", "down"),
        ("IDLE*", "down"),
        ("DOWN", "down"),
        ("FAIL", "down"),
        ("IDLE+RESERVED", "reserved"),
        ("IDLE+MAINTENANCE", "reserved"),
        ("IDLE+CLOUD+POWERED_DOWN", "down"),
        ("IDLE~", "down"),
        ("IDLE+CLOUD+POWERING_UP", "up"),
        ("", "down"),
    ],
)
def test_condition_from_states(state: str, expected: str) -> None:
    assert build(node(state=state)).nodes[0].condition == expected


def test_build_powered_down_node_is_said() -> None:
    assert any("powered-down" in text and "n1" in text for text in build(node(state="IDLE~")).assumptions)


def test_build_index_order_follows_gres_conf_where_it_tells() -> None:
    conf = "NodeName=n1 Name=gpu Type=v File=/dev/x0\nNodeName=n1 Name=gpu Type=a File=/dev/x[1-2]\n"
    made = build(node(gres="gpu:a:2,gpu:v:1"), extra={"gres.conf": conf})
    assert [slot.type for slot in made.nodes[0].gpus] == ["v", "a", "a"]
    plain = build(node(gres="gpu:a:2,gpu:v:1"))
    assert [slot.type for slot in plain.nodes[0].gpus] == ["a", "a", "v"]


def test_build_mig_slices_keep_their_indices_and_are_no_gpus() -> None:
    made = build(node(gres="gpu:a:2(S:0),gpu:1g.5gb:3(S:0),gpu:v:1(S:1),shard:8"))
    assert [(slot.index, slot.type) for slot in made.nodes[0].gpus] == [(0, "a"), (1, "a"), (5, "v")]
    assert made.nodes[0].labels == (("gres/shard", "8"),)
    assert sum("not counted" in text for text in made.left_out) == 2


def test_build_gpu_with_used_shards_is_not_free() -> None:
    made = build(node(gres="gpu:a:4,shard:16", used="gpu:a:1(IDX:0),shard:4(-/4,4/4,0/4,0/4)"))
    assert capacity.of(made).nodes[0].gpu_mask == 0b1100


def test_build_without_any_node_raises() -> None:
    with pytest.raises(errors.InputError):
        build("")


# --- wiring


def matrix(near: str) -> str:
    return f"\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\nGPU0\t X \t{near}\t0-3\t0\nGPU1\t{near}\t X \t0-3\t0\n"


def test_build_saved_topologies_that_are_equal_share_one_machine() -> None:
    nodes = "".join(node(name, gres="gpu:a:2") for name in ("n1", "n2", "n10"))
    texts = {"topo/n1.txt": matrix("NV4"), "topo/n2.txt": matrix("NV4"), "topo/n10.txt": matrix("PIX")}
    made = build(nodes, extra=texts)
    assert made.topology.nodes == ("n1", "n2", "n10")
    assert made.topology.machine_of == (0, 0, 1)
    assert made.topology.machines[0].links[0].lanes == 4
    assert not any("wiring" in text for text in made.assumptions)


def test_build_given_topology_goes_before_saved_one() -> None:
    given = topo.NodeTopology("other", "hand", gpus=(topo.Gpu("GPU0"), topo.Gpu("GPU1")))
    made = build(node(gres="gpu:a:2"), topologies={"n1": given}, extra={"topo/n1.txt": matrix("NV4")})
    assert made.topology.machines == (given,)


def test_build_one_file_for_alike_nodes_is_for_each() -> None:
    made = build(node("n1", gres="gpu:a:2") + node("n2", gres="gpu:a:2"), extra={"topo/n[1-2].txt": matrix("NV4")})
    assert made.topology.machine_of == (0, 0)


def test_build_broken_topology_is_left_out_and_unknown() -> None:
    made = build(node(), extra={"topo/n1.txt": "no matrix at all"})
    assert made.topology.machine_of == (-1,)
    assert any("topo/n1.txt" in text for text in made.left_out)
    assert any("n1 is unknown" in text for text in made.assumptions)


def test_build_topology_of_other_gpu_count_is_said() -> None:
    made = build(node(gres="gpu:a:4"), extra={"topo/n1.txt": matrix("NV4")})
    assert any("Slurm counts 4 GPUs, its topology shows 2" in text for text in made.left_out)


def test_build_without_switches_has_no_levels_and_says_so() -> None:
    made = build(node())
    assert made.topology.fabric.levels == ()
    assert any("switches" in text for text in made.assumptions)


def test_build_broken_live_topology_falls_back_on_the_conf_file() -> None:
    made = build(
        node("n1"), extra={"scontrol_show_topology.txt": "SwitchName=", "topology.conf": "SwitchName=s Nodes=n1\n"}
    )
    assert [domain.name for domain in made.topology.fabric.domains] == ["s"]
    assert made.left_out


# --- jobs


@pytest.mark.parametrize(
    ("state", "reason", "priority", "expected"),
    [
        ("RUNNING", "None", 5, "running"),
        ("CONFIGURING", "None", 5, "running"),
        ("SUSPENDED", "None", 5, "suspended"),
        ("COMPLETING", "None", 5, "completing"),
        ("PENDING", "Resources", 5, "pending"),
        ("PENDING", "JobHeldAdmin", 5, "held"),
        ("PENDING", "Priority", 0, "held"),
        ("REQUEUE_HOLD", "x", 5, "held"),
        ("COMPLETED", "None", 5, None),
        ("CANCELLED", "None", 5, None),
        ("NODE_FAIL", "None", 5, None),
    ],
)
def test_build_job_states(state: str, reason: str, priority: int, expected: str | None) -> None:
    jobs = build(node(), job(state=state, reason=reason, priority=priority, holdings=holds("gpu:a:1(IDX:0)"))).jobs
    assert [one.state for one in jobs] == ([expected] if expected else [])


def test_build_json_completing_job_still_holds() -> None:
    part = {"name": "n1", "memory": {"allocated": 5}, "sockets": []}
    one = {
        "job_id": 3, "job_state": ["COMPLETED", "COMPLETING"], "nodes": "n1",
        "job_resources": {"nodes": {"allocation": [part]}}, "gres_detail": ["gpu:a:1(IDX:2)"],
    }  # fmt: skip
    document = json.dumps({"meta": {"slurm": {"release": "24.11.5"}}, "jobs": [one]})
    made = build(node(), extra={"scontrol_show_jobs_json.txt": document})
    assert made.jobs[0].state == "completing"
    assert made.jobs[0].allocations[0].gpus == (2,)


def test_build_job_on_unknown_node_is_said() -> None:
    made = build(node(), job(nodes="n[1,7]", holdings=holds("gpu:a:1(IDX:0)", "n[1,7]")))
    assert [allocation.node for allocation in made.jobs[0].allocations] == ["n1"]
    assert any("job 1" in text and "n7" in text for text in made.left_out)


def test_build_gpu_held_twice_is_said() -> None:
    made = build(
        node(),
        job(1, holdings=holds("gpu:a:2(IDX:0-1)")) + job(2, holdings=holds("gpu:a:1(IDX:1)")),
    )
    assert "GPU 1 of n1 is held more than once (jobs 1, 2)" in made.left_out
    assert capacity.of(made).nodes[0].gpu_mask == 0b1100


def test_build_gpu_index_that_the_node_lacks_is_said() -> None:
    made = build(node(gres="gpu:a:2"), job(holdings=holds("gpu:a:2(IDX:1,9)")))
    assert made.jobs[0].allocations[0].gpus == (1,)
    assert any("GPU 9 of n1" in text for text in made.left_out)


def test_build_gpus_without_index_are_counted() -> None:
    made = build(node(used="gpu(CNT:2)"), job(holdings=holds("gpu(CNT:2)")))
    allocation = made.jobs[0].allocations[0]
    assert (allocation.gpus, allocation.gpu_count) == (None, 2)
    assert capacity.of(made).nodes[0].gpus == 2


def test_build_without_detail_knows_only_the_nodes() -> None:
    made = build(node(), job(asks="TresPerNode=gres/gpu:2"))
    assert made.jobs[0].allocations == (cluster.Allocation(node="n1", gpus=None, gpu_count=2),)
    assert any("not told" in text for text in made.left_out)


@pytest.mark.parametrize(
    ("count", "asks", "expected"),
    [
        ("2-4", "TresPerNode=gres/gpu:1", (2, 4)),
        ("1", "TresPerNode=gres/gpu:1", (1, None)),
        ("1", "TresPerJob=gres/gpu:6", (1, 6)),  # each node of it gives at least one
        ("2", "TresPerTask=gres/gpu=3", (2, 3)),
    ],
)
def test_build_node_range_of_waiting_job(count: str, asks: str, expected: tuple[int, int | None]) -> None:
    request = build(node(), job(state="PENDING", count=count, asks=asks, nodes="")).jobs[0].request
    assert (request.nodes, request.nodes_max) == expected


def test_build_job_that_asks_for_two_types_keeps_the_count() -> None:
    made = build(node(), job(state="PENDING", asks="TresPerNode=gres/gpu:a:2,gres/gpu:v:1", nodes=""))
    assert (made.jobs[0].request.gpus_per_node, made.jobs[0].request.gpu_type) == (3, None)
    assert any("several types" in text for text in made.left_out)


def test_build_job_that_asks_for_shards_asks_for_no_gpus() -> None:
    made = build(node(), job(state="PENDING", asks="TresPerNode=gres/shard:2", nodes=""))
    assert made.jobs[0].request.gpus_per_node is None
    assert any("shard" in text for text in made.left_out)


@pytest.mark.parametrize(("share", "expected"), [("EXCLUSIVE", True), ("NO", False)])
def test_build_partition_of_whole_nodes_makes_its_jobs_exclusive(share: str, expected: bool) -> None:
    made = build(
        node(), job(state="PENDING", nodes=""), extra={"scontrol_show_partition.txt": PARTITION.format(share=share)}
    )
    assert made.jobs[0].request.exclusive is expected


@pytest.mark.parametrize(("mode", "expected"), [("REQUEUE", True), ("OFF", False), ("CANCEL", False)])
def test_build_job_may_be_moved_where_its_partition_requeues(mode: str, expected: bool) -> None:
    partition = PARTITION.format(share="NO").replace("PreemptMode=OFF", f"PreemptMode={mode}")
    made = build(node(), job(), extra={"scontrol_show_partition.txt": partition})
    assert made.jobs[0].preemptible is expected


@pytest.mark.parametrize(("parameters", "expected"), [("CR_CORE_MEMORY", True), ("CR_CORE", False)])
def test_build_zero_memory_is_all_of_it_only_where_memory_counts(parameters: str, expected: bool) -> None:
    config = f"SelectTypeParameters = {parameters}\n"
    made = build(node(), job(state="PENDING", nodes=""), extra={"scontrol_show_config.txt": config})
    assert made.jobs[0].request.whole_memory is expected


# --- two forms, broken forms


def test_build_cut_json_with_text_falls_back_and_says_so() -> None:
    made = build(node(), extra={"scontrol_show_nodes_json.txt": '{"nodes": [{"name": "n1"'})
    assert made.nodes[0].cpus == 8
    assert any("scontrol_show_nodes_json.txt:1:25" in text for text in made.left_out)


def test_build_cut_json_alone_raises_with_place_and_hint() -> None:
    recording = recordings.Recording("dir", (("scontrol_show_nodes_json.txt", '{"nodes": [\n{"name": "n1"'),))
    with pytest.raises(
        errors.ParseError, match=r"dir/scontrol_show_nodes_json\.txt:2:14: JSON ends too early"
    ) as caught:
        snapshot.build(recording)
    assert caught.value.hint == "scontrol show nodes --json"


def test_build_broken_text_with_json_falls_back_and_says_so() -> None:
    document = json.dumps({"nodes": [{"name": "n1", "cpus": 8, "state": ["IDLE"], "gres": "gpu:2"}]})
    made = build("slurm_load_node error", extra={"scontrol_show_nodes_json.txt": document})
    assert len(made.nodes[0].gpus) == 2
    assert made.left_out


def test_build_json_gaps_are_filled_from_text() -> None:
    document = json.dumps({"nodes": [{"name": "n1", "cpus": 99, "state": ["IDLE"]}]})
    made = build(node(gres="gpu:a:4"), extra={"scontrol_show_nodes_json.txt": document})
    assert made.nodes[0].cpus == 8  # CPUEfctv, which this JSON does not tell
    assert len(made.nodes[0].gpus) == 4


def test_build_sinfo_json_without_nodes_is_passed_over() -> None:
    made = build(node(), extra={"sinfo_json.txt": '{"sinfo": []}'})
    assert [one.name for one in made.nodes] == ["n1"]


def test_build_local_times_are_moved_by_the_zone_of_the_recording() -> None:
    running = job(holdings=holds("")).replace("   Partition=p", "   SubmitTime=2026-11-30T23:00:00\n   Partition=p")
    entries = (
        ("scontrol_show_config.txt", "Configuration data as of 2026-12-01T02:00:05\n"),
        ("scontrol_show_node_d.txt", node()),
        ("scontrol_show_job_d.txt", running),
    )
    taken = 1796083204  # date -u -d 2026-12-01T00:00:04 +%s: the cluster's clock is two hours east
    made = snapshot.build(recordings.Recording("r", entries, taken))
    assert made.source.taken == taken
    assert made.jobs[0].submitted == 1796072400  # date -u -d 2026-11-30T21:00:00 +%s


def test_notes_long_list_ends_with_a_count() -> None:
    notes = snapshot_nodes.Notes()
    for number in range(250):
        notes.leave_out(f"thing {number}")
    assert len(notes.left_out) == 201
    assert notes.left_out[-1] == "and 50 more of this kind"


def test_build_nodes_and_jobs_stand_in_natural_order() -> None:
    nodes = "".join(node(name) for name in ("n10", "n2", "n1"))
    jobs = "".join(job(number, state="PENDING", nodes="") for number in (10, 9, 100))
    made = build(nodes, jobs)
    assert [one.name for one in made.nodes] == ["n1", "n2", "n10"]
    assert [one.id for one in made.jobs] == ["9", "10", "100"]
