"""Every recording against its own `scontrol show node -d` and `show job -d`, read here by regular expressions alone."""

from __future__ import annotations

import os
import pathlib
import re

import msgspec
import pytest

from placer import hostlist
from placer.cluster import capacity
from placer.cluster import recording as recordings
from placer.cluster import types as cluster
from placer.slurm import snapshot

REPOSITORY = pathlib.Path(__file__).parents[3]
FIXTURES = REPOSITORY / "fixtures" / "slurm"
DATA = pathlib.Path(os.environ.get("PLACER_DATA", REPOSITORY.parent / "shared" / "data")) / "slurm"
RELEASES = ("22.05", "24.11", "25.11", "26.05")
TEXTS = frozenset(
    {"scontrol_show_node_d.txt", "scontrol_show_job_d.txt", "scontrol_show_partition.txt", "squeue_o.txt"}
)


def recording(folder: pathlib.Path, *, text: bool = True, json: bool = True) -> recordings.Recording:
    entries = [
        (file.name, file.read_text())
        for file in sorted(folder.iterdir())
        if file.is_file() and (json or "json" not in file.name) and (text or file.name not in TEXTS)
    ]
    return recordings.Recording(folder.name, tuple(entries))


def shared(release: str) -> pathlib.Path:
    folder = DATA / release
    if not folder.is_dir():
        pytest.skip(f"no recordings under {DATA}: set PLACER_DATA")
    return folder


def folders() -> list[pathlib.Path]:
    return [FIXTURES / release for release in RELEASES]


# --- an independent reading of the text


def blocks(text: str, key: str) -> list[str]:
    return [block for block in re.split(rf"(?m)^(?={key}=)", text) if block.startswith(f"{key}=")]


def value(block: str, key: str) -> str:
    found = re.search(rf"(?m)(?:^|\s){re.escape(key)}=(\S*)", block)
    return found[1] if found else ""


def numbers(text: str) -> tuple[int, ...]:
    out: list[int] = []
    for part in filter(None, text.split(",")):
        low, _, high = part.partition("-")
        out += range(int(low), int(high or low) + 1)
    return tuple(out)


def mib(text: str) -> int:
    digits, unit = re.match(r"(\d+)([MG]?)", text).groups()  # type: ignore[union-attr]
    return int(digits) * (1024 if unit == "G" else 1)


def gpus_asked(block: str, key: str) -> tuple[int | None, str | None]:
    found = re.search(r"gres[/:]gpu(?::([a-z]\w*))?[:=](\d+)", value(block, key))
    return (int(found[2]), found[1]) if found else (None, None)


@pytest.mark.parametrize("folder", folders(), ids=lambda folder: folder.name)
def test_build_running_jobs_hold_what_scontrol_says(folder: pathlib.Path) -> None:
    made = {job.id: job for job in snapshot.build(recording(folder)).jobs}
    checked = 0
    for block in blocks((folder / "scontrol_show_job_d.txt").read_text(), "JobId"):
        if value(block, "JobState") != "RUNNING":
            continue
        expected = {
            node: (numbers(gpus), numbers(cpus), int(memory))
            for node, cpus, memory, gpus in re.findall(
                r"Nodes=(\S+) CPU_IDs=(\S+) Mem=(\d+) GRES=gpu:\w+:\d+\(IDX:([\d,-]+)\)", block
            )
        }
        job = made[value(block, "JobId")]
        assert job.state is cluster.JobState.RUNNING
        assert {a.node: (a.gpus, a.cpu_ids, a.memory_mib) for a in job.allocations} == expected
        assert sum(allocation.cpus for allocation in job.allocations) == int(value(block, "NumCPUs"))
        checked += 1
    assert checked == 8


@pytest.mark.parametrize("folder", folders(), ids=lambda folder: folder.name)
def test_build_pending_jobs_ask_for_what_scontrol_says(folder: pathlib.Path) -> None:
    made = {job.id: job for job in snapshot.build(recording(folder)).jobs}
    checked = 0
    for block in blocks((folder / "scontrol_show_job_d.txt").read_text(), "JobId"):
        if value(block, "JobState") != "PENDING":
            continue
        job = made[value(block, "JobId")]
        request = job.request
        least, _, most = value(block, "NumNodes").partition("-")
        asked = {key: gpus_asked(block, f"TresPer{key}") for key in ("Job", "Node", "Task", "Socket")}
        per_gpu = re.search(r"gpu:(\d+)", value(block, "MemPerTres"))
        assert request.nodes == int(least)
        assert (request.nodes_max == int(most)) if most else True
        assert request.ntasks == int(value(block, "NumTasks"))
        assert request.cpus_per_task == int(value(block, "CPUs/Task"))
        assert (request.gpus, request.gpus_per_node, request.gpus_per_task, request.gpus_per_socket) == tuple(
            asked[key][0] for key in ("Job", "Node", "Task", "Socket")
        )
        assert request.gpu_type == next((kind for _, kind in asked.values() if kind), None)
        assert (request.constraint or "(null)") == value(block, "Features")
        assert (request.nodelist or "(null)") == value(block, "ReqNodeList")
        assert (request.exclude or "(null)") == value(block, "ExcNodeList")
        assert (request.switches or "") == (int(s) if (s := value(block, "Switches").partition("@")[0]) else "")
        hours, minutes, seconds = map(int, value(block, "TimeLimit").split(":"))
        assert request.time_limit == hours * 3600 + minutes * 60 + seconds
        assert request.memory_per_gpu_mib == (int(per_gpu[1]) if per_gpu else None)
        memory = value(block, "MinMemoryNode")
        if memory and not per_gpu:
            assert request.memory_per_node_mib == (mib(memory) or None)
            assert request.whole_memory == (memory == "0")
        marker = value(block, "Exclusive")
        assert request.exclusive == (marker == "NODE" if marker else value(block, "OverSubscribe") == "NO")
        assert request.partition == value(block, "Partition")
        assert (job.state is cluster.JobState.HELD) == (value(block, "Priority") == "0")
        assert job.allocations == ()
        checked += 1
    assert checked == 12


@pytest.mark.parametrize("folder", folders(), ids=lambda folder: folder.name)
def test_build_free_gpus_are_those_that_no_gres_line_names(folder: pathlib.Path) -> None:
    free = {node.node.name: node for node in capacity.of(snapshot.build(recording(folder))).nodes}
    found = blocks((folder / "scontrol_show_node_d.txt").read_text(), "NodeName")
    assert len(found) == 8
    for block in found:
        kind, count = re.search(r"\bGres=gpu:(\w+):(\d+)", block).groups()  # type: ignore[union-attr]
        used = re.search(r"GresUsed=gpu:\w+:\d+\(IDX:([\d,-]+)\)", block)
        node = free[value(block, "NodeName")]
        expected = set(range(int(count))) - set(numbers(used[1] if used else ""))
        assert node.gpu_mask == sum(1 << index for index in expected)
        assert node.unplaced == 0
        assert {slot.type for slot in node.node.gpus} == {kind}
        assert node.cpus == int(value(block, "CPUTot")) - int(value(block, "CPUAlloc"))
        assert node.memory_mib == int(value(block, "RealMemory")) - int(value(block, "AllocMem"))
        assert (node.node.condition is cluster.NodeCondition.DRAINED) == ("DRAIN" in value(block, "State"))
        assert ",".join(node.node.features) == value(block, "ActiveFeatures")
        assert ",".join(node.node.partitions) == value(block, "Partitions")


@pytest.mark.parametrize("folder", folders(), ids=lambda folder: folder.name)
def test_build_fabric_and_wiring_are_those_of_the_conf_files(folder: pathlib.Path) -> None:
    made = snapshot.build(recording(folder))
    domains = {domain.name: domain.nodes for domain in made.topology.fabric.domains if domain.level == 0}
    assert domains == {
        "leaf1": ("gpu01", "gpu02", "gpu03"),
        "leaf2": ("gpu04", "gpu05", "gpu06"),
        "leaf3": ("old1", "old2"),
    }
    assert made.topology.machine_of == (0, 0, 0, 0, 0, 0, 1, 1)
    a100, v100 = made.topology.machines
    assert [gpu.numa for gpu in a100.gpus] == [(0,)] * 4 + [(1,)] * 4
    # gres.conf: Cores=0-31 of 64 cores with two threads each.
    assert a100.gpus[0].cpus == (*range(32), *range(64, 96))
    assert {(link.a, link.b): link.lanes for link in v100.links} == {
        ("GPU0", "GPU1"): 2,
        ("GPU0", "GPU2"): 1,
        ("GPU0", "GPU3"): 1,
        ("GPU1", "GPU2"): 1,
        ("GPU1", "GPU3"): 1,
        ("GPU2", "GPU3"): 2,
    }
    assert any("gres.conf" in text for text in made.assumptions)
    assert made.left_out == ()


@pytest.mark.parametrize("folder", folders(), ids=lambda folder: folder.name)
def test_build_of_recording_tells_release_moment_and_partitions(folder: pathlib.Path) -> None:
    made = snapshot.build(recording(folder))
    assert made.source.version.startswith(folder.name)
    assert made.source.system == "slurm"
    gpu, old = made.partitions
    assert (gpu.name, gpu.nodes, gpu.default, gpu.max_time) == ("gpu", hostlist.expand("gpu[01-06]"), True, 7 * 86400)
    assert (old.name, old.nodes, old.default, old.max_time) == ("old", ("old1", "old2"), False, 86400)
    assert gpu.default_whole_memory  # DefMemPerNode=UNLIMITED with CR_CORE_MEMORY
    taken = re.match(
        r"Configuration data as of \d+-\d+-(\d+)T(\d+):", (folder / "scontrol_show_config.txt").read_text()
    )
    assert made.source.taken is not None
    assert taken is not None
    assert made.source.taken // 3600 % 24 == int(taken[2])
    assert len(made.settings) > 100


# --- JSON against text


def without_words(made: cluster.ClusterSnapshot) -> cluster.ClusterSnapshot:
    return msgspec.structs.replace(made, assumptions=(), left_out=())


def only_what_json_tells(made: cluster.ClusterSnapshot, release: str) -> cluster.ClusterSnapshot:
    """Fields that a release's JSON does not print are set to what is read in their absence."""

    def job(one: cluster.Job) -> cluster.Job:
        request = one.request
        if release == "22.05":  # prints null for --cpus-per-task, has no required switches
            request = msgspec.structs.replace(request, cpus_per_task=None, switches=None)
        if release == "26.05":  # `shared` is empty for every job
            request = msgspec.structs.replace(request, exclusive=False)
        return msgspec.structs.replace(one, request=request)

    partitions = made.partitions
    if release == "22.05":  # has no JSON of partitions
        partitions = ()
    if release in {"24.11", "25.11"}:  # print no partition flags
        partitions = tuple(msgspec.structs.replace(one, default=False) for one in partitions)
    return msgspec.structs.replace(made, jobs=tuple(map(job, made.jobs)), partitions=partitions)


@pytest.mark.parametrize("release", RELEASES)
def test_build_from_json_alone_equals_text_alone(release: str) -> None:
    folder = shared(release)
    from_text = snapshot.build(recording(folder, json=False))
    from_json = snapshot.build(recording(folder, text=False))
    assert without_words(from_json) == without_words(only_what_json_tells(from_text, release))


@pytest.mark.parametrize("release", RELEASES)
def test_build_from_both_forms_equals_text_alone(release: str) -> None:
    folder = shared(release)
    from_text = snapshot.build(recording(folder, json=False))
    both = snapshot.build(recording(folder))
    assert without_words(both) == without_words(from_text)
    assert both.left_out == from_text.left_out == ()


@pytest.mark.parametrize("release", ["22.05", "26.05"])
def test_build_of_shipped_json_equals_shipped_text(release: str) -> None:
    folder = FIXTURES / release
    from_json = snapshot.build(recording(folder, text=False))
    from_text = snapshot.build(recording(folder, json=False))
    assert without_words(from_json) == without_words(only_what_json_tells(from_text, release))
