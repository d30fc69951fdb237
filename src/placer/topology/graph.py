"""The networkx graph of a node and of a cluster: paths, cuts, and export to Graphviz.

The only importer of networkx, and only inside functions, since the import takes longer than most commands.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING

import msgspec

from placer import errors, hostlist, ranges
from placer.topology import fabric as fabrics
from placer.topology import links
from placer.topology import types as topo

if TYPE_CHECKING:
    import networkx as nx

NVSWITCH = "NVSwitch"
_DIRECT = (topo.LinkType.NVLINK, topo.LinkType.XGMI, topo.LinkType.C2C)
_NEAR = (topo.LinkType.PIX, topo.LinkType.PXB, topo.LinkType.PHB)


class Path(msgspec.Struct, frozen=True):
    """Devices from end to end, and the bandwidth of the narrowest link between them (GB/s one way)."""

    devices: tuple[str, ...]
    bandwidth_gbps: float


def node_graph(node: topo.NodeTopology, *, sm: int | None = None) -> nx.Graph:
    """A node as an undirected graph over device ids.

    Vertices carry `kind`: gpu, nic, numa (`numa:0`), switch, nvswitch. Edges carry `type` (a LinkType value, `numa` or
    `behind`), `lanes`, `bandwidth_gbps` (None = unknown) and `assumed` (the machine or the GPU model was not known).
    GPUs behind an NVSwitch are joined to the vertex NVSWITCH by all their lanes instead of to each other. `sm` is the
    compute capability of GPUs whose model is not told. PCIe relations are edges of their own, one for each pair: flows
    over them share hardware, so they must not be added up.
    """
    import networkx as nx

    graph = nx.Graph(name=node.name)
    graph.add_nodes_from((gpu.id, {"kind": "gpu", "index": gpu.index}) for gpu in node.gpus)
    graph.add_nodes_from((nic.id, {"kind": "nic", "name": nic.name}) for nic in node.nics)
    ports = _switch_ports(node, sm)
    if ports:
        graph.add_node(NVSWITCH, kind="nvswitch")
    for gpu, (lanes, bandwidth, assumed) in ports.items():
        graph.add_edge(gpu, NVSWITCH, type="NV", lanes=lanes, bandwidth_gbps=bandwidth, assumed=assumed)
    rates = links.pcie(links.host_of(node), [gpu.model for gpu in node.gpus])
    for link in node.links:
        if not (link.type is topo.LinkType.NVLINK and link.a in ports and link.b in ports):
            bandwidth, assumed = _bandwidth(node, link, rates, sm)
            values = {"lanes": link.lanes, "bandwidth_gbps": bandwidth, "assumed": assumed}
            graph.add_edge(link.a, link.b, type=link.type.value, **values)
    places = [(gpu.id, gpu.numa) for gpu in node.gpus] + [(nic.id, nic.numa) for nic in node.nics]
    for device, numas in places:
        for numa in numas or ():
            graph.add_node(f"numa:{numa}", kind="numa")
            graph.add_edge(device, f"numa:{numa}", type="numa", lanes=0, bandwidth_gbps=None, assumed=False)
    for switch in node.switches:
        graph.add_node(switch.id, kind="switch")
        for below in (*switch.devices, *((switch.parent,) if switch.parent else ())):
            graph.add_edge(below, switch.id, type="behind", lanes=0, bandwidth_gbps=None, assumed=False)
    return graph


def cluster_graph(topology: topo.ClusterTopology) -> nx.Graph:
    """A cluster as an undirected graph: vertices (-1, node) with `kind` node and (level, domain) with `kind` domain."""
    import networkx as nx

    graph = nx.Graph()
    graph.add_nodes_from(((-1, name), {"kind": "node"}) for name in topology.nodes)
    children = fabrics.children(topology.fabric)
    for domain in topology.fabric.domains:
        place = (domain.level, domain.name)
        graph.add_node(place, kind="domain")
        if domain.parent is not None:
            graph.add_edge(place, (domain.level + 1, domain.parent))
        for name in fabrics.direct_nodes(domain, children.get(place, ())):
            graph.add_node((-1, name), kind="node")
            graph.add_edge((-1, name), place)
    return graph


def hops(graph: nx.Graph, a: str, b: str) -> int | None:
    """Links between two nodes of a cluster graph; None when no path is known. Repeated domains count as hops."""
    import networkx as nx

    ends = ((-1, a), (-1, b))
    if not all(end in graph for end in ends) or not nx.has_path(graph, *ends):
        return None
    return int(nx.shortest_path_length(graph, *ends))


def widest_path(node: topo.NodeTopology, a: str, b: str, *, sm: int | None = None) -> Path | None:
    """The path between two devices whose narrowest link is widest; of such the shortest. None = no known path.

    GPUs may relay, as NCCL lets them do over NVLink. Raises RequestError for a device that the node does not have.
    """
    import networkx as nx

    known = _only_known(node_graph(node, sm=sm))
    for device in (a, b):
        if device not in known:
            raise errors.RequestError(f"node `{node.name}` has no device `{errors.printable(device)}`")
    if not nx.has_path(known, a, b):
        return None
    tree = nx.maximum_spanning_tree(known, weight="bandwidth_gbps")
    widths = [tree.edges[edge]["bandwidth_gbps"] for edge in nx.utils.pairwise(nx.shortest_path(tree, a, b))]
    width = min(widths, default=float("inf"))
    wide = (
        known.edge_subgraph([e for e in known.edges if known.edges[e]["bandwidth_gbps"] >= width]) if widths else known
    )
    return Path(tuple(nx.shortest_path(wide, a, b)), float(width))


def cut_bandwidth(
    node: topo.NodeTopology, set_a: Collection[str], set_b: Collection[str], *, sm: int | None = None
) -> float | None:
    """What two sets of GPUs can exchange at once, GB/s one way: the least cut of the direct links between them.

    Direct links are NVLink, xGMI and the NVSwitch, without relay through other GPUs. Where none leads across, the best
    single PCIe path stands in, since flows share it; None when that is unknown too. Raises RequestError for sets that
    overlap or hold what is no GPU of the node.
    """
    import networkx as nx

    gpus = {gpu.id for gpu in node.gpus}
    if set(set_a) & set(set_b) or not gpus.issuperset((*set_a, *set_b)):
        raise errors.RequestError(f"two sets of different GPUs of node `{node.name}` are needed")
    graph = _only_known(node_graph(node, sm=sm))
    inside = {*set_a, *set_b, NVSWITCH}
    flow = nx.Graph()
    flow.add_nodes_from(("source", "sink"))
    flow.add_edges_from(("source", ("gpu", gpu)) for gpu in set_a)  # an edge without capacity is unlimited
    flow.add_edges_from(("sink", ("gpu", gpu)) for gpu in set_b)
    across = [0.0]
    for a, b, values in graph.edges(data=True):
        if {a, b} <= inside and values["type"] in _DIRECT:
            flow.add_edge(("gpu", a), ("gpu", b), capacity=values["bandwidth_gbps"])
        elif (a in set_a and b in set_b) or (a in set_b and b in set_a):
            across.append(values["bandwidth_gbps"])
    return float(nx.maximum_flow_value(flow, "source", "sink")) or max(across) or None


def _only_known(graph: nx.Graph) -> nx.Graph:
    known = graph.copy()
    known.remove_edges_from([e for e in graph.edges if graph.edges[e]["bandwidth_gbps"] is None])
    return known


def _switch_ports(node: topo.NodeTopology, sm: int | None) -> dict[str, tuple[int, float | None, bool]]:
    """GPU behind an NVSwitch -> its lanes towards it, their bandwidth, and whether the generation was assumed."""
    widest: dict[int, int] = {}
    for (i, j), link in links.gpu_pairs(node).items():
        if link.type is topo.LinkType.NVLINK:
            widest[i], widest[j] = max(widest.get(i, 0), link.lanes), max(widest.get(j, 0), link.lanes)
    ports = {}
    for at, (gpu, behind) in enumerate(zip(node.gpus, links.behind_switch(node), strict=True)):
        if behind:
            own = links.sm_of(gpu.model or node.machine) or sm
            guess = own or links.sm_of(None, lanes=widest[at])
            ports[gpu.id] = (widest[at], links.nvlink_gbps(guess, widest[at]) if guess else None, own is None)
    return ports


def _bandwidth(
    node: topo.NodeTopology, link: topo.Link, rates: links.Pcie, sm: int | None
) -> tuple[float | None, bool]:
    """Bandwidth of one link alone, and whether something was assumed for it."""
    model = next((gpu.model for gpu in node.gpus if gpu.id in (link.a, link.b)), None) or node.machine
    own = links.sm_of(model) or sm
    told = links.bandwidth_gbps(link, sm=own, model=model, host=links.host_of(node))
    if told is not None or link.type is topo.LinkType.UNKNOWN:
        return told, False
    if link.type is topo.LinkType.NVLINK:
        used = {gpu.id: lanes for gpu, lanes in zip(node.gpus, links.ports_used(node), strict=True)}
        guess = links.sm_of(None, lanes=max(used.get(link.a, 0), used.get(link.b, 0)))
        return (links.nvlink_gbps(guess, link.lanes) if guess else None), True
    return (None if link.type in _DIRECT else links.path_gbps(link.type, rates)), True


# --- Graphviz


def node_dot(node: topo.NodeTopology) -> str:
    """A node in Graphviz's language: NUMA nodes as clusters, NVLinks by width, PCIe paths up to a host bridge."""
    body: list[str] = []
    for number, (title, devices) in enumerate(_by_place(node)):
        body.append(f"  subgraph cluster_{number} {{ label={_quoted(title)}; " + "".join(devices) + "}")
    switched = {gpu.id for gpu, behind in zip(node.gpus, links.behind_switch(node), strict=True) if behind}
    if switched:
        body.append(f"  {_quoted(NVSWITCH)} [shape=hexagon];")
    ports = _switch_ports(node, None)
    body += [_edge(gpu, NVSWITCH, f"NV{ports[gpu][0]}", 3) for gpu in sorted(switched, key=hostlist.natural_key)]
    for link in node.links:
        if link.type in _DIRECT and not {link.a, link.b} <= switched:
            body.append(_edge(link.a, link.b, link.label, 1 + min(link.lanes, 4) / 2))
        elif link.type in _NEAR:
            body.append(_edge(link.a, link.b, link.label, 1, "dotted"))
    return _dot(node.name, body)


def fabric_dot(fabric: topo.Fabric) -> str:
    """A fabric in Graphviz's language: one vertex for each domain, the nodes below folded into one label."""
    body: list[str] = []
    children = fabrics.children(fabric)
    for domain in fabric.domains:
        own = f"{domain.level}/{domain.name}"
        title = f"{fabric.levels[domain.level].name} {domain.name}"
        body.append(f"  {_quoted(own)} [label={_quoted(title)}];")
        if domain.parent is not None:
            body.append(_edge(f"{domain.level + 1}/{domain.parent}", own, "", 1))
        direct = fabrics.direct_nodes(domain, children.get((domain.level, domain.name), ()))
        if direct:
            text = f"{errors.printable(hostlist.fold(direct), 60)} ({len(direct)})"
            body.append(f"  {_quoted('nodes of ' + own)} [label={_quoted(text)}, shape=plaintext];")
            body.append(_edge(own, "nodes of " + own, "", 1))
    return _dot("fabric", body)


def _by_place(node: topo.NodeTopology) -> Iterator[tuple[str, list[str]]]:
    places: dict[tuple[int, ...] | None, list[str]] = {}
    for gpu in node.gpus:
        places.setdefault(gpu.numa, []).append(f"{_quoted(gpu.id)} [shape=box]; ")
    for nic in node.nics:
        label = f"{nic.id} {nic.name}" if nic.name and nic.name != nic.id else nic.id
        places.setdefault(nic.numa, []).append(f"{_quoted(nic.id)} [label={_quoted(label)}]; ")
    for numa, devices in places.items():
        yield ("NUMA node unknown" if numa is None else f"NUMA {ranges.format(numa)}"), devices


def _edge(a: str, b: str, label: str, width: float, style: str = "solid") -> str:
    return f"  {_quoted(a)} -- {_quoted(b)} [label={_quoted(label)}, penwidth={width:g}, style={style}];"


def _dot(name: str, body: Iterable[str]) -> str:
    return "\n".join([f"graph {_quoted(name)} {{", "  node [shape=ellipse];", *body, "}"]) + "\n"


def _quoted(text: str) -> str:
    return '"' + errors.printable(text, 200).replace("\\", "\\\\").replace('"', '\\"') + '"'
