"""Labels of every dialect: facts from the publishers' documents, counted by hand."""

from __future__ import annotations

import pytest

from placer import errors
from placer.topology import fabric as fabrics
from placer.topology import labels
from placer.topology import types as topo


def of(table: dict[str, dict[str, str]], keys: list[str] | None = None) -> topo.Fabric:
    return labels.fabric_of(table.items(), keys)


def levels(fabric: topo.Fabric) -> list[str]:
    return [level.name for level in fabric.levels]


def eight(closest: str, farthest: str) -> dict[str, dict[str, str]]:
    """Eight nodes, two below each of four close domains, four below each of two far ones."""
    return {f"n{i}": {closest: f"c{i // 2}", farthest: f"f{i // 4}"} for i in range(8)}


@pytest.mark.parametrize(
    ("closest", "farthest", "names"),
    [
        ("fabric.topograph.run/tier-0", "fabric.topograph.run/tier-1", ["tier-0", "tier-1"]),
        ("fabric.topograph.run/tier-9", "fabric.topograph.run/tier-10", ["tier-9", "tier-10"]),
        ("network.topology.nvidia.com/leaf", "network.topology.nvidia.com/spine", ["leaf", "spine"]),
        ("network.topology.nvidia.com/block", "network.topology.nvidia.com/datacenter", ["block", "datacenter"]),
        ("topology.k8s.aws/network-node-layer-3", "topology.k8s.aws/network-node-layer-1", ["layer-3", "layer-1"]),
        ("cloud.google.com/gce-topology-subblock", "cloud.google.com/gce-topology-block", ["subblock", "block"]),
        ("oci.oraclecloud.com/host.rack_id", "oci.oraclecloud.com/host.network_block_id", ["rack", "block"]),
        ("backend.coreweave.cloud/leafgroup", "backend.coreweave.cloud/fabric", ["leafgroup", "fabric"]),
        ("topology.nebius.com/tier-1", "topology.nebius.com/tier-2", ["tier-1", "tier-2"]),
        ("cloud.provider.com/topology-rack", "cloud.provider.com/topology-block", ["rack", "block"]),
        ("volcano.sh/tor", "volcano.sh/hypercluster", ["tor", "hypercluster"]),
        ("topology.kubernetes.io/zone", "topology.kubernetes.io/region", ["zone", "region"]),
        ("nvidia.com/gpu.clique", "fabric.topograph.run/tier-0", ["clique", "tier-0"]),
        ("accelerator.topograph.run/sub-domain", "accelerator.topograph.run/domain", None),
        ("topology.k8s.aws/ultraserver-id", "topology.k8s.aws/network-node-layer-3", ["ultraserver", "layer-3"]),
        ("ds.coreweave.com/nvlink.domain", "backend.coreweave.cloud/leafgroup", ["nvlink.domain", "leafgroup"]),
        ("network.topology.nvidia.com/accelerator", "network.topology.nvidia.com/leaf", ["accelerator", "leaf"]),
    ],
)
def test_fabric_of_dialect_closest_first_with_its_keys(closest: str, farthest: str, names: list[str] | None) -> None:
    made = of(eight(closest, farthest))
    assert levels(made) == (names or ["nvlink-sub-domain", "nvlink-domain"])
    assert [level.label for level in made.levels] == [closest, farthest]
    assert [len(fabrics.domains_of(made, at)) for at in (0, 1)] == [4, 2]
    assert fabrics.domains_of(made, 0)[3].nodes == ("n6", "n7")
    assert (made.kind, made.warnings) == ("labels", ())


def test_fabric_of_own_keys_those_alone_in_their_order() -> None:
    table = {
        n: {**own, "site/rack": own["fabric.topograph.run/tier-0"]}
        for n, own in eight("fabric.topograph.run/tier-0", "fabric.topograph.run/tier-1").items()
    }
    made = of(table, ["site/rack", "nobody/has-this"])
    assert (levels(made), made.levels[0].label) == (["rack"], "site/rack")
    assert levels(of(table, ["a/rack", "site/rack"])) == ["rack"]


def test_fabric_of_own_keys_with_one_last_word_are_told_apart() -> None:
    table = {f"n{i}": {"a/rack": f"r{i}", "b/rack": "x"} for i in range(2)}
    assert levels(of(table, ["a/rack", "b/rack"])) == ["a/rack", "b/rack"]


def test_fabric_of_key_named_twice_parse_error() -> None:
    with pytest.raises(errors.ParseError, match="twice"):
        of({"n1": {"a/rack": "r"}}, ["a/rack", "a/rack"])


def test_fabric_of_no_labels_no_fabric() -> None:
    assert of({"n1": {"kubernetes.io/hostname": "n1"}, "n2": {}}) == topo.Fabric()


def test_fabric_of_two_dialects_most_nodes_count_and_the_other_is_told() -> None:
    table = eight("topology.nebius.com/tier-1", "topology.nebius.com/tier-2")
    table["n0"]["fabric.topograph.run/tier-0"] = "s"
    made = of(table)
    assert levels(made) == ["tier-1", "tier-2"]
    assert made.warnings == ("labels: 1 nodes have labels of topograph too; those of Nebius are read",)


def test_fabric_of_zone_and_region_stand_above_the_network() -> None:
    table = eight("fabric.topograph.run/tier-0", "topology.kubernetes.io/zone")
    for own in table.values():
        own["topology.kubernetes.io/region"] = "north"
    assert levels(of(table)) == ["tier-0", "zone", "region"]


def test_fabric_of_cliques_alone_are_islands_without_order() -> None:
    """Two cliques of one physical domain (the same UUID) share nothing that is known of distance."""
    made = of({f"n{i}": {"nvidia.com/gpu.clique": f"uuid.{i // 2}"} for i in range(4)})
    assert [(d.name, d.parent) for d in made.domains] == [("uuid.0", None), ("uuid.1", None)]


def test_fabric_of_clique_of_several_leaves_stands_above_them() -> None:
    table = {
        f"n{i}": {
            "nvidia.com/gpu.clique": f"u.{i // 4}",
            "fabric.topograph.run/tier-0": f"l{i // 2}",
            "fabric.topograph.run/tier-1": "s",
        }
        for i in range(8)
    }
    assert levels(of(table)) == ["tier-0", "clique", "tier-1"]


def test_fabric_of_clique_in_part_of_a_leaf_draws_no_other_node_into_it() -> None:
    table = {f"n{i}": {"fabric.topograph.run/tier-0": "l0"} for i in range(4)}
    for name in ("n0", "n1"):
        table[name]["nvidia.com/gpu.clique"] = "u.0"
    made = of(table)
    assert levels(made) == ["clique", "tier-0"]
    assert fabrics.domains_of(made, 0)[0].nodes == ("n0", "n1")


def test_fabric_of_clique_across_the_network_is_split_and_told() -> None:
    table = {
        "n0": {"nvidia.com/gpu.clique": "u.0", "fabric.topograph.run/tier-0": "a"},
        "n1": {"nvidia.com/gpu.clique": "u.0", "fabric.topograph.run/tier-0": "b"},
        "n2": {"nvidia.com/gpu.clique": "u.1", "fabric.topograph.run/tier-0": "a"},
        "n3": {"nvidia.com/gpu.clique": "u.2", "fabric.topograph.run/tier-0": "b"},
    }
    made = of(table)
    assert len(fabrics.domains_of(made, 0)) == 4
    assert "crosses the network" in made.warnings[0]


def test_fabric_of_two_names_of_one_nvlink_domain_one_level() -> None:
    table = {
        f"n{i}": {"nvidia.com/gpu.clique": f"u.{i // 2}", "accelerator.topograph.run/domain": f"d{i // 2}"}
        for i in range(4)
    }
    assert levels(of(table)) == ["clique"]


def test_fabric_of_hosts_that_are_all_different_are_no_level() -> None:
    table = eight("cloud.google.com/gce-topology-host", "cloud.google.com/gce-topology-block")
    assert levels(of(table)) == ["host", "block"]
    for name, own in table.items():
        own["cloud.google.com/gce-topology-host"] = f"host-{name}"
    assert levels(of(table)) == ["block"]


def test_fabric_of_hashed_values_stay_opaque() -> None:
    table = {"n0": {"fabric.topograph.run/tier-0": "xcbf29ce484222325"}, "n1": {"fabric.topograph.run/tier-0": ""}}
    made = of(table)
    assert [(d.name, d.nodes) for d in made.domains] == [("xcbf29ce484222325", ("n0",))]


def test_keys_of_label_then_prefix_then_topograph() -> None:
    made = topo.Fabric(
        (topo.Level("nvlink-domain"), topo.Level("leaf"), topo.Level("zone", "topology.kubernetes.io/zone"))
    )
    assert labels.keys_of(made) == (
        "accelerator.topograph.run/domain",
        "fabric.topograph.run/tier-0",
        "topology.kubernetes.io/zone",
    )
    assert labels.keys_of(made, "example.net/") == (
        "example.net/nvlink-domain",
        "example.net/leaf",
        "example.net/zone",
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [("leaf 1", "leaf-1"), ("b1/r1", "b1-r1"), ("_x_", "x"), ("ü", "domain"), ("a" * 80, "a" * 63)],
)
def test_label_value_is_what_kubernetes_takes(name: str, value: str) -> None:
    assert labels.label_value(name, set()) == value


def test_label_value_taken_gets_a_number() -> None:
    taken: set[str] = set()
    assert [labels.label_value(name, taken) for name in ("a/b", "a b", "a" * 80, "a" * 81)] == [
        "a-b",
        "a-b-2",
        "a" * 63,
        "a" * 61 + "-2",
    ]
