from __future__ import annotations

import pathlib

import pytest
import yaml

from placer import errors, hostlist
from placer.topology import fabric as fabrics
from placer.topology import types as topo
from placer.topology.exports import kubernetes as exports
from placer.topology.fabrics import kubernetes, topograph

MODEL = (pathlib.Path(__file__).parents[3] / "fixtures/fabric/model.yaml").read_text()


def model() -> topo.Fabric:
    return topograph.read(MODEL, source="m")


def loaded(text: str) -> list[dict[str, object]]:
    return list(yaml.safe_load_all(text))


@pytest.mark.parametrize("version", [exports.KUEUE, exports.KAI])
def test_topology_broadest_first_and_the_host_last(version: str) -> None:
    (document,) = loaded(exports.to_yaml([exports.topology(model(), version, name="t")]))
    assert document == {
        "apiVersion": version,
        "kind": "Topology",
        "metadata": {"name": "t"},
        "spec": {
            "levels": [
                {"nodeLabel": "fabric.topograph.run/tier-2"},
                {"nodeLabel": "fabric.topograph.run/tier-1"},
                {"nodeLabel": "accelerator.topograph.run/domain"},
                {"nodeLabel": "fabric.topograph.run/tier-0"},
                {"nodeLabel": "kubernetes.io/hostname"},
            ]
        },
    }


def test_topology_of_labels_names_the_labels_that_are_there() -> None:
    made = topo.Fabric((topo.Level("rack", "example.net/rack"),), kind="labels")
    assert exports.topology(made, exports.KUEUE).node_labels == ("example.net/rack", "kubernetes.io/hostname")


def test_topology_of_sixteen_levels_is_too_much_for_kueue_alone() -> None:
    made = topo.Fabric(tuple(topo.Level(f"l{i}") for i in range(16)))
    with pytest.raises(errors.InputError, match="16 levels"):
        exports.topology(made, exports.KUEUE)
    assert len(exports.topology(made, exports.KAI).node_labels) == 17


def test_node_labels_and_topology_read_again_give_the_fabric() -> None:
    text = exports.to_yaml([exports.topology(model(), exports.KUEUE), *exports.node_labels(model())])
    again = kubernetes.read([(text, "f")])
    old = model()
    assert [(d.level, d.name, d.nodes, d.parent) for d in again.domains] == [
        (d.level, d.name, d.nodes, d.parent) for d in old.domains
    ]


def test_hyper_nodes_tiers_count_from_one_at_the_nodes() -> None:
    found = exports.hyper_nodes(model())
    assert [(h.name, h.tier, h.tier_name) for h in found if h.name in ("leaf-1", "nvl-1", "core")] == [
        ("leaf-1", 1, "leaf"),
        ("nvl-1", 2, "nvlink-domain"),
        ("core", 4, "core"),
    ]
    documents = loaded(exports.to_yaml(found))
    assert documents[0] == {
        "apiVersion": "topology.volcano.sh/v1alpha1",
        "kind": "HyperNode",
        "metadata": {"name": "leaf-1"},
        "spec": {
            "tier": 1,
            "tierName": "leaf",
            "members": [
                {"type": "Node", "selector": {"exactMatch": {"name": name}}} for name in hostlist.expand("gpu[01-04]")
            ],
        },
    }


def test_hyper_nodes_read_again_give_the_fabric_with_its_level_names() -> None:
    again = kubernetes.read([(exports.to_yaml(exports.hyper_nodes(model())), "f")])
    old = model()
    assert [level.name for level in again.levels] == [level.name for level in old.levels]
    assert [(d.level, d.name, d.nodes, d.parent) for d in again.domains] == [
        (d.level, d.name, d.nodes, d.parent) for d in old.domains
    ]


def test_hyper_node_names_are_dns_names_and_distinct() -> None:
    domains = {"n1": {"rack": "Rack A/1"}, "n2": {"rack": "rack-a-1"}, "n3": {"rack": "..."}}
    made = fabrics.from_node_domains(["rack"], domains, source="f")
    names = [entry.name for entry in exports.hyper_nodes(made)]
    assert len(set(names)) == 3
    assert sorted(names) == ["rack", "rack-a-1", "rack-rack-a-1"]
