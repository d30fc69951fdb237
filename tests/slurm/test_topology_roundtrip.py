"""What placer writes, a real slurmctld takes, and `scontrol show topology` tells the same fabric again."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

import msgspec
import pytest
from tests.slurm import clusters

from placer import hostlist
from placer.cluster import types as cluster
from placer.sandbox import emulated
from placer.slurm import topology_conf, topology_yaml
from placer.topology import fabric as fabrics
from placer.topology import fabric_parts
from placer.topology import types as topo
from placer.topology.fabrics import topograph

ROOT = pathlib.Path(__file__).parents[2]
NODES = hostlist.expand("gpu[01-16]")
pytestmark = pytest.mark.real_slurm


def shape() -> emulated.EmulatedCluster:
    nodes = tuple(emulated.EmulatedNode(name, 1, 2, 1, 1000) for name in NODES)
    switches = (topo.Switch("only", nodes=NODES),)
    return emulated.EmulatedCluster(nodes, (cluster.Partition(name="p", nodes=NODES, default=True),), switches)


@pytest.fixture(scope="module", params=clusters.each_release())
def sandbox(request: pytest.FixtureRequest, slurm_installed: None) -> Iterator[clusters.Cluster]:
    """Sixteen nodes without GPUs, one switch; of each release."""
    with clusters.started(request.param, shape()) as cluster:
        yield cluster


def shown(sandbox: clusters.Cluster, text: str, file: str = "topology.conf") -> topo.Fabric:
    """The fabric that slurmctld tells after it was given this file."""
    directory = sandbox.directory
    other = {"topology.conf": "topology.yaml", "topology.yaml": "topology.conf"}[file]
    (directory / "etc" / other).unlink(missing_ok=True)
    (directory / "etc" / file).write_text(text)
    log = directory / "log" / "slurmctld.log"
    before = log.stat().st_size
    sandbox.run("scontrol", "reconfigure")
    told = sandbox.run("scontrol", "show", "topology")
    said = log.read_text(errors="replace")[before:]
    assert "fatal" not in said, said
    assert not [line for line in said.splitlines() if "error" in line and "opology" in line], said
    return topology_conf.read(told, source="scontrol")


def assert_same(told: topo.Fabric, written: topo.Fabric) -> None:
    assert [level.name for level in told.levels] == [level.name for level in written.levels]
    assert [(d.level, d.name, d.nodes, d.parent) for d in told.domains] == [
        (d.level, d.name, d.nodes, d.parent) for d in written.domains
    ]
    assert told.warnings == ()


TREES = {
    "one leaf": "SwitchName=a Nodes=gpu[01-16]\n",
    "two levels": "SwitchName=a Nodes=gpu[01-08]\nSwitchName=b Nodes=gpu[09-16]\nSwitchName=s Switches=a,b\n",
    "uneven": "SwitchName=a Nodes=gpu[01-04]\nSwitchName=b Nodes=gpu[05-08]\nSwitchName=c Nodes=gpu[09-16]\n"
    "SwitchName=s Switches=a,b\nSwitchName=t Switches=s,c\n",
    "two islands": "SwitchName=a Nodes=gpu[01-08]\nSwitchName=b Nodes=gpu[09-16]\n",
}


@pytest.mark.parametrize("name", TREES)
def test_topology_conf_written_by_placer_is_told_again(sandbox: clusters.Cluster, name: str) -> None:
    made = topology_conf.read(TREES[name], source="f")
    assert_same(shown(sandbox, topology_conf.write(made)), made)


def test_topology_conf_of_a_cluster_model_is_told_again(sandbox: clusters.Cluster) -> None:
    """Four leaves, two spines, a core; NVLink domains as wide as a spine are no switches."""
    made = topograph.read((ROOT / "fixtures" / "fabric" / "model.yaml").read_text(), source="m")
    told = shown(sandbox, topology_conf.write(fabric_parts.network(made)))
    assert [level.name for level in told.levels] == ["leaf", "spine", "core"]
    assert [hostlist.fold(d.nodes) for d in fabrics.domains_of(told, 1)] == ["gpu[01-08]", "gpu[09-16]"]


def test_topology_conf_of_labels_with_names_slurm_cannot_read_is_told_again(sandbox: clusters.Cluster) -> None:
    domains = {name: {"rack": f"rack {i // 4}/x", "hall": "hall"} for i, name in enumerate(NODES)}
    made = fabrics.from_node_domains(["rack", "hall"], domains, source="f")
    told = shown(sandbox, topology_conf.write(made))
    assert [d.nodes for d in fabrics.domains_of(told, 0)] == [d.nodes for d in fabrics.domains_of(made, 0)]
    assert [d.name for d in told.domains] == ["rack_0_x", "rack_1_x", "rack_2_x", "rack_3_x", "hall"]


def test_topology_conf_of_blocks_is_told_again(sandbox: clusters.Cluster) -> None:
    if sandbox.release < (24, 11):
        pytest.skip("topology/block with BlockSizes is of Slurm 24.11 or later")
    conf = sandbox.directory / "etc" / "slurm.conf"
    text = conf.read_text()
    made = topology_yaml.read((ROOT / "fixtures/fabric/two-islands.yaml").read_text(), source="f", name="racks")
    try:
        conf.write_text(text.replace("topology/tree", "topology/block"))
        told = shown(sandbox, topology_conf.write_blocks(made))
        assert_same(told, made)
    finally:
        conf.write_text(text)


def test_topology_yaml_written_by_placer_is_told_again(sandbox: clusters.Cluster) -> None:
    if sandbox.release < (25, 5):
        pytest.skip("topology.yaml is of Slurm 25.05 or later")
    made = topology_yaml.read((ROOT / "fixtures/fabric/two-islands.yaml").read_text(), source="f")
    made = msgspec.structs.replace(made, warnings=())
    assert_same(shown(sandbox, topology_yaml.write_one(made), "topology.yaml"), made)
