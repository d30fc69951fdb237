"""`placer topo [SOURCE…]`: one node's inside; `placer topo fabric`: what lies between the nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from placer import errors
from placer.cli import _sources

if TYPE_CHECKING:
    from placer.cli import _topo_document
    from placer.topology import types as topo

# No argument of a process can hold a NUL, so no file name is mistaken for this.
_NODE: Final = "\0node"


_output = click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json", "yaml", "dot", "svg"]),
    default="table",
    help="Form of the answer.",
)


class _NodeContext(click.Context):
    """The context of the command behind `placer topo SOURCE`, which has no word of its own."""

    @property
    def command_path(self) -> str:
        return self.parent.command_path if self.parent else ""


class _NodeCommand(click.Command):
    context_class = _NodeContext


class _NodeOrVerb(click.Group):
    """`topo FABRIC-VERB …` runs that verb; everything else is a line for the node command."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put the node command's hidden word before a line that names no verb."""
        own = bool(args) and (args[0] in self.commands or args[0] in ctx.help_option_names)
        return super().parse_args(ctx, args if own else [_NODE, *args])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """A verb, or the node command."""
        return node if cmd_name == _NODE else super().get_command(ctx, cmd_name)

    def format_usage(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Both forms."""
        formatter.write_usage(ctx.command_path, "[OPTIONS] [SOURCE]...")
        formatter.write_usage(ctx.command_path, "COMMAND [ARGS]...", prefix="       ")

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The node command's options, then the verbs."""
        node.format_options(ctx, formatter)
        self.format_commands(ctx, formatter)


@click.group(
    cls=_NodeOrVerb,
    no_args_is_help=False,
    epilog="\b\nExamples:\n"
    "  placer topo fixtures/topo/dgx-a100.txt\n"
    "  placer topo fixtures/topo/dgx-1v.txt --gpu-type v100 -o json\n"
    "  nvidia-smi topo -m | placer topo -",
)
def command() -> None:
    """Show what is wired to what in a node.

    SOURCE is a saved output of `nvidia-smi topo -m`, `nvidia-smi topo -mp` or `rocm-smi --showtopo`, lines
    `path:content` of sysfs files, a sysfs tree, or `-` for standard input; without one, this host is looked at. Several
    sources are merged when they are about one node and agree. Unknown is shown as `?` and is never taken as near.
    """


@click.command(cls=_NodeCommand)
@click.argument("sources", nargs=-1, metavar="[SOURCE]...")
@click.option("--name", metavar="NODE", help="Name of the node; else that of the first file.")
@click.option("--gpu-type", metavar="TYPE", help="Product of the GPUs where no source tells it, for bandwidths: a100.")
@_output
def node(sources: tuple[str, ...], name: str | None, gpu_type: str | None, output: str) -> None:
    """Show what is wired to what in a node."""
    topology = _typed(_read(sources, name), gpu_type)
    if output in ("dot", "svg"):
        _draw(topology, output)
        return
    from placer.cli import _document, _topo_document

    bandwidth = _topo_document.bandwidth_of(topology)
    if output != "table":
        _document.emit("NodeTopology", _topo_document.node(topology, bandwidth), output)
        return
    _show(topology, bandwidth)


def _read(sources: tuple[str, ...], name: str | None) -> topo.NodeTopology:
    import pathlib

    from placer.files import topologies
    from placer.probes import host
    from placer.topology.readers import merge

    if sources.count(topologies.STDIN) > 1:
        raise errors.UsageError("standard input can be read only once", hint="nvidia-smi topo -m | placer topo -")
    if not sources:
        found = [host.probe()]
    else:
        found = [_sysfs(p) if p != "-" and pathlib.Path(p).is_dir() else topologies.read(p) for p in sources]
    return merge.merge(found, name=name or found[0].name)


def _typed(topology: topo.NodeTopology, gpu_type: str | None) -> topo.NodeTopology:
    """The topology with `gpu_type` as model of the GPUs that have none; said in `assumed`."""
    import msgspec

    if gpu_type is None or all(gpu.model for gpu in topology.gpus):
        return topology
    gpus = tuple(gpu if gpu.model else msgspec.structs.replace(gpu, model=gpu_type) for gpu in topology.gpus)
    assumed = (*topology.assumed, f"GPUs are {errors.printable(gpu_type)}, as given")
    return msgspec.structs.replace(topology, gpus=gpus, assumed=assumed)


def _sysfs(path: str) -> topo.NodeTopology:
    """A directory as source: it must be a sysfs tree."""
    import pathlib

    from placer.probes import host

    root = pathlib.Path(path)
    if not (root / "devices" / "system").is_dir():
        shown = errors.printable(path)
        hint = f"placer topo {shown}/NODE.txt"
        raise errors.InputError(f"{shown} is a directory, but not a sysfs tree with devices/system below it", hint=hint)
    return host.read_sysfs(root)


def _draw(topology: topo.NodeTopology, output: str) -> None:
    from placer.cli import _render

    if output == "dot":
        from placer.topology import graph

        _render.say(graph.node_dot(topology).rstrip("\n"))
    else:
        from placer.report import svg

        _render.say(svg.node(topology).rstrip("\n"))


def _show(topology: topo.NodeTopology, bandwidth: _topo_document.Bandwidth) -> None:
    from placer.cli import _render, _topo_document

    if topology.gpus:
        columns, rows = _topo_document.gpu_rows(topology)
        _render.table(columns, rows, title=_topo_document.summary(topology))
    else:
        _render.say(_topo_document.summary(topology))
    if topology.links:
        _render.say()
        _render.table(*_topo_document.link_rows(topology, bandwidth))
    if topology.numa_nodes:
        _render.say()
        _render.table(["numa node", "cpus", "memory MiB", "gpus"], _topo_document.numa_rows(topology))
    for text in topology.warnings:
        _render.warn(text)
    for text in topology.assumed:
        _render.note(f"assumed: {text}")


@command.command(
    epilog="\b\nExamples:\n"
    "  placer topo fabric fixtures/topo/fabric-two-level.conf\n"
    "  placer topo fabric fixtures/topo/fabric-two-level.conf -o json\n"
    "  scontrol show topology | placer topo fabric -"
)
@click.argument("text_source", metavar="[SOURCE]", required=False)
@_output
@_sources.options
def fabric(text_source: str | None, output: str, source: _sources.SourceOptions) -> None:
    """Show the levels and domains between the nodes, and what looks wrong.

    SOURCE is a `topology.conf`, the output of `scontrol show topology`, or `-` for standard input; without one, the
    fabric of the snapshot or of the cluster is shown.
    """
    found, nodes, origin = _fabric(text_source, source)
    if output in ("dot", "svg"):
        _draw_fabric(found, output)
        return
    from placer.cli import _document, _topo_document

    checks = _topo_document.fabric_checks(found, nodes)
    if output != "table":
        _document.emit("Fabric", _topo_document.fabric(found, origin, checks), output)
        return
    _show_fabric(found, checks)


def _fabric(text_source: str | None, source: _sources.SourceOptions) -> tuple[topo.Fabric, tuple[str, ...], str]:
    """The fabric, the names of the nodes that should be in it, and what it was read from."""
    if text_source is not None:
        from placer.files import topologies
        from placer.slurm import topology_conf

        if source.snapshot is not None:
            raise errors.UsageError("a SOURCE and `--snapshot` exclude each other", hint="placer topo fabric --help")
        origin = "stdin" if text_source == topologies.STDIN else text_source
        return topology_conf.read(topologies.read_text(text_source), source=origin), (), origin
    from placer.files import config

    snapshot = _sources.read(source, config.load())
    return snapshot.topology.fabric, snapshot.topology.nodes, source.snapshot or snapshot.source.system


def _draw_fabric(found: topo.Fabric, output: str) -> None:
    from placer.cli import _render

    if output == "dot":
        from placer.topology import graph

        _render.say(graph.fabric_dot(found).rstrip("\n"))
    else:
        from placer.report import svg

        _render.say(svg.fabric(found).rstrip("\n"))


def _show_fabric(found: topo.Fabric, checks: list[str]) -> None:
    from placer import hostlist
    from placer.cli import _render
    from placer.topology import fabric as fabrics

    if not found.levels:
        _render.say("no fabric is known: every node counts as equally far from every other")
    else:
        rows = [
            [found.levels[d.level].name, d.name, d.parent or "-", str(len(d.nodes)), hostlist.fold(d.nodes)]
            for level in reversed(range(len(found.levels)))
            for d in fabrics.domains_of(found, level)
        ]
        levels = " < ".join(level.name for level in found.levels)
        title = f"{found.kind}: {levels}, {len(fabrics.nodes_of(found))} nodes"
        _render.table(["level", "domain", "below", "size", "nodes"], rows, title=title)
    for text in (*found.warnings, *checks):
        _render.warn(text)
