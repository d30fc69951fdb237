"""`placer topo export`: a fabric or a node in the words of another program."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from placer import errors
from placer.cli import _sources, _topo_fabric, _topo_forms, _topo_sources

if TYPE_CHECKING:
    from placer.topology import types as topo

_OF_NODES = ("dot", "svg", "nccl")
TARGETS = (
    "slurm-tree",
    "slurm-block",
    "slurm-yaml",
    "kueue",
    "kai",
    "hypernode",
    "node-labels",
    "csv",
    "dot",
    "svg",
    "nccl",
)


@click.command(
    name="export",
    epilog="\b\nExamples:\n"
    "  placer topo export fixtures/fabric/rails.ibnetdiscover --to slurm-tree > topology.conf\n"
    "  placer topo export fixtures/fabric/model.yaml --to slurm-block --block-sizes 4,8\n"
    "  placer topo export fixtures/topo/fabric-two-level.conf --to slurm-yaml > topology.yaml\n"
    "  placer topo export fixtures/fabric/nodes.yaml --to kueue | kubectl apply -f -\n"
    "  placer topo export fixtures/topo/dgx-1v.txt --to svg > dgx-1v.svg",
)
@click.argument("paths", nargs=-1, metavar="[SOURCE]...")
@click.option("--to", "target", type=click.Choice(TARGETS), required=True, help="What to write.")
@click.option("--name", metavar="NAME", default="default", help="Name of the topology that is written.")
@click.option("--level", metavar="LEVEL", help="The level whose domains become blocks; else the closest.")
@click.option("--block-sizes", metavar="N,N", help="BlockSizes of slurm-block; else what the levels give.")
@click.option("--label-prefix", metavar="PREFIX", help="Start of the label keys of kueue, kai and node-labels.")
@_topo_forms.options
@_sources.options
def command(
    paths: tuple[str, ...],
    target: str,
    name: str,
    level: str | None,
    block_sizes: str | None,
    label_prefix: str | None,
    choice: _topo_forms.Choice,
    source: _sources.SourceOptions,
) -> None:
    """Write the fabric, or a node, in the form of another program.

    Slurm: `slurm-tree` and `slurm-block` are a topology.conf, `slurm-yaml` a topology.yaml (25.05 and later).
    Kubernetes: `kueue` and `kai` are a Topology whose labels `node-labels` puts on the nodes, `hypernode` are Volcano's
    HyperNodes. `nccl` is the topology XML of a node. Warnings about the source go to stderr.
    """
    from placer.cli import _render

    texts = _topo_sources.texts(paths)
    if texts and not _topo_sources.are_fabrics(texts):
        _node(_topo_sources.node(texts), target)
        return
    if target == "nccl":
        if paths or source.snapshot is not None:
            raise errors.UsageError("`--to nccl` needs a node, not a fabric", hint="placer topo export --help")
        _node(_topo_sources.node(()), target)
        return
    found = _topo_sources.fabric(texts, choice, source)
    for text in found.fabric.warnings:
        _render.warn(text)
    if target in ("dot", "svg"):
        _topo_fabric.draw(found, target)
        return
    if not found.fabric.levels and found.fabric.kept is None and found.fabric.kind != "flat":
        message = f"{errors.printable(found.origin)} tells no fabric to export"
        raise errors.InputError(message, hint="placer topo fabric")
    _render.say(_written(found.fabric, target, name, level, block_sizes, label_prefix).rstrip("\n"))


def _written(
    fabric: topo.Fabric, target: str, name: str, level: str | None, block_sizes: str | None, prefix: str | None
) -> str:
    from placer.slurm import topology_conf, topology_yaml
    from placer.topology import fabric as fabrics
    from placer.topology import fabric_parts
    from placer.topology.exports import kubernetes
    from placer.topology.fabrics import csv_table

    if target == "slurm-tree":
        return topology_conf.write(fabric_parts.network(fabric))
    if target == "slurm-block":
        at = 0 if level is None else fabrics.level_index(fabric, level)
        return topology_conf.write_blocks(fabric, level=at, sizes=_sizes(block_sizes))
    if target == "slurm-yaml":
        return topology_yaml.write_one(fabric_parts.network(fabric), name=name)
    if target == "csv":
        return csv_table.write(fabric)
    if target == "hypernode":
        return kubernetes.to_yaml(kubernetes.hyper_nodes(fabric))
    if target == "node-labels":
        return kubernetes.to_yaml(kubernetes.node_labels(fabric, prefix=prefix))
    version = kubernetes.KUEUE if target == "kueue" else kubernetes.KAI
    return kubernetes.to_yaml([kubernetes.topology(fabric, version, name=name, prefix=prefix)])


def _sizes(text: str | None) -> list[int] | None:
    if text is None:
        return None
    words = text.split(",")
    if not all(word.isascii() and word.isdigit() and len(word) < 10 for word in words):
        raise errors.UsageError("`--block-sizes` takes whole numbers with commas between, as in 8,16")
    return [int(word) for word in words]


def _node(node: topo.NodeTopology, target: str) -> None:
    from placer.cli import _render

    for text in node.warnings:
        _render.warn(text)
    if target not in _OF_NODES:
        message = f"`--to {target}` needs a fabric; {errors.printable(node.source)} is a node"
        raise errors.UsageError(message, hint="placer topo export --help")
    if target == "dot":
        from placer.topology import graph

        _render.say(graph.node_dot(node).rstrip("\n"))
    elif target == "svg":
        from placer.report import svg

        _render.say(svg.node(node).rstrip("\n"))
    else:
        from placer.topology.readers import nccl_xml_write

        _render.say(nccl_xml_write.write(node).rstrip("\n"))
