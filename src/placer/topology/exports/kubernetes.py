"""A fabric for Kubernetes: Kueue's and KAI's `Topology`, Volcano's `HyperNode`, and the node labels that they speak of.

API versions: Kueue `apis/kueue/v1beta2/topology_types.go`, KAI `docs/topology/README.md`, Volcano's HyperNode
documents. Levels of a Topology are broadest first and end in the host; tiers of HyperNodes count from 1 at the nodes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import msgspec

from placer import errors
from placer.topology import labels, switch_list
from placer.topology import types as topo

KUEUE = "kueue.x-k8s.io/v1beta2"
KAI = "kai.scheduler/v1alpha1"
VOLCANO = "topology.volcano.sh/v1alpha1"
MAX_KUEUE_LEVELS = 16
_NAME = re.compile(r"[^a-z0-9.-]+")


class Topology(msgspec.Struct, frozen=True):
    """A `Topology` object: the label keys of its levels, broadest first, the host last."""

    api_version: str
    name: str
    node_labels: tuple[str, ...]


class HyperNode(msgspec.Struct, frozen=True):
    """A `HyperNode` object: nodes (tier 1) or other HyperNodes below."""

    name: str
    tier: int
    tier_name: str
    nodes: tuple[str, ...] = ()
    hyper_nodes: tuple[str, ...] = ()


class NodeLabels(msgspec.Struct, frozen=True):
    """The labels that put one node into the fabric."""

    name: str
    labels: tuple[tuple[str, str], ...]


def topology(fabric: topo.Fabric, api_version: str, *, name: str = "default", prefix: str | None = None) -> Topology:
    """The `Topology` of a fabric for KUEUE or KAI. Raises InputError when Kueue takes no so many levels."""
    keys = labels.keys_of(fabric, prefix)
    if api_version == KUEUE and len(keys) >= MAX_KUEUE_LEVELS:
        raise errors.InputError(f"Kueue takes {MAX_KUEUE_LEVELS} levels with the host, this fabric has {len(keys) + 1}")
    return Topology(api_version, name, (*reversed(keys), labels.HOSTNAME))


def node_labels(fabric: topo.Fabric, *, prefix: str | None = None) -> tuple[NodeLabels, ...]:
    """What each node must be labelled with so that `topology` is true; natural order of nodes."""
    own = labels.of_fabric(fabric, labels.keys_of(fabric, prefix))
    return tuple(NodeLabels(node, tuple(values.items())) for node, values in own.items())


def hyper_nodes(fabric: topo.Fabric) -> tuple[HyperNode, ...]:
    """The HyperNodes of a fabric, tier 1 first. A domain that is repeated upwards is one of them."""
    switches = switch_list.of(fabric, _object_name)
    height = switch_list.heights(switches)
    found = [
        HyperNode(s.name, height[s.name] + 1, _tier_name(fabric, height[s.name]), s.nodes, s.switches) for s in switches
    ]
    return tuple(sorted(found, key=lambda entry: entry.tier))


def to_yaml(objects: Iterable[Topology | HyperNode | NodeLabels]) -> str:
    """Objects as YAML documents that `kubectl apply` takes."""
    return "".join(("---\n" if at else "") + "\n".join(_lines(entry)) + "\n" for at, entry in enumerate(objects))


def _tier_name(fabric: topo.Fabric, height: int) -> str:
    return fabric.levels[height].name if height < len(fabric.levels) else f"tier{height + 1}"


def _object_name(text: str) -> str:
    """A DNS subdomain (RFC 1123): small letters, digits, `-`, `.`; 200 characters leave room for a number."""
    parts = (part.strip("-")[:63].strip("-") for part in _NAME.sub("-", text.lower()).split("."))
    return ".".join(part for part in parts if part)[:200].strip("-.")


def _lines(entry: Topology | HyperNode | NodeLabels) -> Sequence[str]:
    """YAML by hand: every text in double quotes, so that no word is taken for a number or a truth value."""
    if isinstance(entry, Topology):
        head = _head(entry.api_version, "Topology", entry.name)
        return [*head, "spec:", "  levels:", *(f"  - nodeLabel: {_quoted(key)}" for key in entry.node_labels)]
    if isinstance(entry, NodeLabels):
        own = [f"    {_quoted(key)}: {_quoted(value)}" for key, value in entry.labels]
        return [*_head("v1", "Node", entry.name), *(["  labels:", *own] if own else [])]
    members = []
    for kind, names in (("HyperNode", entry.hyper_nodes), ("Node", entry.nodes)):
        for name in names:
            members += [f"  - type: {kind}", "    selector:", f"      exactMatch: {{name: {_quoted(name)}}}"]
    head = _head(VOLCANO, "HyperNode", entry.name)
    spec = ["spec:", f"  tier: {entry.tier}", f"  tierName: {_quoted(entry.tier_name)}", "  members:"]
    return [*head, *spec, *members]


def _head(api_version: str, kind: str, name: str) -> list[str]:
    return [f"apiVersion: {api_version}", f"kind: {kind}", "metadata:", f"  name: {_quoted(name)}"]


def _quoted(text: str) -> str:
    return msgspec.json.encode(text).decode()
