"""The configuration files against one that is known to work, and against the words of each release."""

import os
import pathlib
import re

import pytest

from placer import errors, hostlist
from placer.cluster import types as cluster
from placer.sandbox import emulated, install, machines, slurm_files
from placer.topology import types as topo
from placer.topology.readers import sniff

DATA = pathlib.Path(os.environ.get("PLACER_DATA", pathlib.Path(__file__).parents[3] / "../shared/data"))
LAYOUT = slurm_files.Layout(pathlib.Path("/srv/lab"))


def installed(release: tuple[int, int], munged: str | None = "/usr/sbin/munged") -> install.Installation:
    return install.Installation("", "", "", "", munged, release, "", unsigned_credentials=release < (23, 11))


def conf(shape: emulated.EmulatedCluster, found: install.Installation) -> list[str]:
    return slurm_files.slurm_conf(shape, LAYOUT, found, user="u", port=17800).splitlines()


def recorded(name: str) -> str:
    path = DATA / "slurm/22.05" / name
    if not path.exists():
        pytest.skip(f"{path} is not there; PLACER_DATA names its directory")
    return path.read_text()


def test_gres_conf_of_the_default_cluster_is_the_one_known_to_work() -> None:
    expected = set()
    for line in recorded("gres.conf").splitlines():
        nodes = re.sub(r"gpu\[01-06\]", "gpu[01-04]", line.split()[0].partition("=")[2])
        for node in hostlist.expand(nodes):
            expected.add(" ".join([f"NodeName={node}", *line.split()[1:]]))
    assert set(slurm_files.gres_conf(emulated.default_cluster(), LAYOUT).splitlines()) == expected


def test_topology_conf_of_the_default_cluster_has_two_levels() -> None:
    assert slurm_files.topology_conf(emulated.default_cluster()).splitlines() == [
        "SwitchName=leaf1 Nodes=gpu[01-02]",
        "SwitchName=leaf2 Nodes=gpu[03-04]",
        "SwitchName=leaf3 Nodes=old[1-2]",
        "SwitchName=spine Switches=leaf[1-3]",
    ]


def test_slurm_conf_has_the_hardware_and_keys_of_the_one_known_to_work() -> None:
    lines = conf(emulated.default_cluster(), installed((22, 5)))
    known = recorded("slurm.conf")
    hardware = re.search(r"Sockets=.*", known)
    assert hardware is not None
    gpu01 = next(line for line in lines if line.startswith("NodeName=gpu01 "))
    assert gpu01 == f"NodeName=gpu01 NodeHostname=localhost NodeAddr=127.0.0.1 Port=17801 {hardware[0]}"
    for key in ("SelectType", "SelectTypeParameters", "ProctrackType", "TaskPlugin", "TopologyPlugin", "GresTypes"):
        assert re.search(f"^{key}=.*$", known, re.MULTILINE)[0] in lines  # type: ignore[index]


def test_slurm_conf_trust_is_munge_in_the_sandbox_or_none() -> None:
    shape = emulated.default_cluster()
    assert "AuthInfo=socket=/srv/lab/run/munge.socket" in conf(shape, installed((26, 5)))
    old = conf(shape, installed((22, 5), munged=None))
    assert "AuthType=auth/none" in old
    assert "CredType=cred/none" in old
    new = conf(shape, installed((24, 11), munged=None))
    assert "AuthType=auth/none" in new
    assert not any(line.startswith("CredType") for line in new)


def test_cgroup_conf_uses_the_word_of_the_release() -> None:
    # cgroup.conf(5): `disabled` is listed from 24.05 on, not in 23.11
    assert slurm_files.cgroup_conf(installed((23, 11))) == "CgroupPlugin=cgroup/v1\n"
    assert slurm_files.cgroup_conf(installed((24, 5))) == "CgroupPlugin=disabled\n"


@pytest.mark.parametrize(
    ("path", "fits"), [("/srv/a", True), ("/srv/" + "a" * 60, True), ("/srv/" + "a" * 70, False), ("/srv/a b", False)]
)
def test_check_directory_refuses_what_sockets_or_files_cannot_hold(path: str, fits: bool) -> None:
    # a Unix socket path has 107 bytes; DIR/spool/gpu01/gpu01_1234567.4294967291 adds 37
    if fits:
        slurm_files.check_directory(pathlib.Path(path), 5)
        return
    with pytest.raises(errors.SandboxError):
        slurm_files.check_directory(pathlib.Path(path), 5)


@pytest.mark.parametrize("machine", [machines.A100, machines.V100])
def test_topology_text_is_read_back_as_the_same_machine(machine: topo.NodeTopology) -> None:
    text = machines.topology_text(machine)
    assert text is not None
    read = sniff.read(text, source="s", name=machine.name)
    assert read.warnings == ()
    assert [(g.id, g.numa, g.cpus) for g in read.gpus] == [(g.id, g.numa, g.cpus) for g in machine.gpus]
    wanted = {frozenset((link.a, link.b)): link.label for link in machine.links}
    found = {frozenset((link.a, link.b)): link.label for link in read.links}
    assert {pair: found[pair] for pair in wanted} == wanted


def test_topology_text_of_a_half_known_machine_is_none() -> None:
    gpus = (topo.Gpu("GPU0", 0), topo.Gpu("GPU1", 1))
    assert machines.topology_text(topo.NodeTopology(name="n", source="s", gpus=gpus)) is None


def snapshot(*nodes: cluster.NodeState, **rest: object) -> cluster.ClusterSnapshot:
    return cluster.ClusterSnapshot(nodes=nodes, **rest)  # type: ignore[arg-type]


def slots(*types: str) -> tuple[cluster.GpuSlot, ...]:
    return tuple(cluster.GpuSlot(i, type=word) for i, word in enumerate(types))


def test_from_snapshot_of_mixed_types_keeps_the_order_of_indices() -> None:
    node = cluster.NodeState(name="f1", gpus=slots("a100", "a100", "v100"), cpus=64, memory_mib=1000)
    shape = emulated.from_snapshot(snapshot(node))
    line = next(line for line in conf(shape, installed((22, 5))) if line.startswith("NodeName=f1"))
    assert "Gres=gpu:a100:2,gpu:v100:1" in line
    assert slurm_files.gres_conf(shape, LAYOUT).splitlines() == [
        "NodeName=f1 Name=gpu Type=a100 File=/srv/lab/dev/nvidia[0-1]",
        "NodeName=f1 Name=gpu Type=v100 File=/srv/lab/dev/nvidia2",
    ]


@pytest.mark.parametrize("numa_listed", [True, False])
def test_from_snapshot_with_a_topology_writes_cores_as_slurm_counts_them(numa_listed: bool) -> None:
    # DGX A100: GPUs 0,1 at CPUs 48-63 and their siblings 176-191 -> cores 48-63 of 128
    near = [(*range(48, 64), *range(176, 192)), (*range(16, 32), *range(144, 160))]
    every = tuple(topo.NumaNode(i, (*range(16 * i, 16 * i + 16), *range(128 + 16 * i, 144 + 16 * i))) for i in range(8))
    gpus = tuple(topo.Gpu(f"GPU{i}", i, numa=(numa,), cpus=near[i]) for i, numa in enumerate((3, 1)))
    machine = topo.NodeTopology(name="dgx", source="s", gpus=gpus, numa_nodes=every if numa_listed else ())
    node = cluster.NodeState(name="d1", gpus=slots("a100", "a100"), cpus=256, memory_mib=1_000_000, sockets=2)
    wiring = topo.ClusterTopology(nodes=("d1",), machines=(machine,), machine_of=(0,))
    shape = emulated.from_snapshot(snapshot(node, topology=wiring))
    assert (shape.nodes[0].cores_per_socket, shape.nodes[0].threads_per_core) == (64, 2)
    assert [line.split()[-1] for line in slurm_files.gres_conf(shape, LAYOUT).splitlines()] == [
        "Cores=48-63",
        "Cores=16-31",
    ]


def test_from_snapshot_partitions_are_those_of_the_nodes_when_it_lists_none() -> None:
    nodes = [cluster.NodeState(name=name, cpus=4, partitions=p) for name, p in (("a", ("x",)), ("b", ("x", "y")))]
    shape = emulated.from_snapshot(snapshot(*nodes))
    assert [(p.name, p.nodes, p.default) for p in shape.partitions] == [
        ("x", ("a", "b"), True),
        ("y", ("b",), False),
    ]


def test_from_snapshot_tree_with_a_repeated_domain_has_each_switch_once() -> None:
    domains = (
        topo.Domain("l1", 0, ("a",), parent="s1"),
        topo.Domain("s2", 0, ("b",), parent="s2"),
        topo.Domain("s1", 1, ("a",), parent="core"),
        topo.Domain("s2", 1, ("b",), parent="core"),
        topo.Domain("core", 2, ("a", "b")),
    )
    levels = (topo.Level("leaf"), topo.Level("spine"), topo.Level("core"))
    wiring = topo.ClusterTopology(nodes=("a", "b"), machine_of=(-1, -1), fabric=topo.Fabric(levels, domains, "tree"))
    nodes = [cluster.NodeState(name=name, cpus=4) for name in "ab"]
    shape = emulated.from_snapshot(snapshot(*nodes, topology=wiring))
    assert slurm_files.topology_conf(shape).splitlines() == [
        "SwitchName=l1 Nodes=a",
        "SwitchName=s2 Nodes=b",
        "SwitchName=s1 Switches=l1",
        "SwitchName=core Switches=s[1-2]",
    ]


@pytest.mark.parametrize("names", [[], ["n"] * 129, ["a b"], ["-x"], ["x=y"]])
def test_from_snapshot_that_slurm_cannot_take_is_refused(names: list[str]) -> None:
    with pytest.raises(errors.SandboxError):
        emulated.from_snapshot(snapshot(*(cluster.NodeState(name=name, cpus=1) for name in names)))


def test_from_snapshot_says_what_it_leaves_out() -> None:
    node = cluster.NodeState(name="a", cpus=4, condition=cluster.NodeCondition.DRAINED)
    shape = emulated.from_snapshot(snapshot(node, jobs=(cluster.Job(id="1"),)))
    assert len(shape.left_out) == 2
