"""`placer topo [SOURCE…]`: one node's inside; its verbs lie beside this module, in `_topo_<verb>.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from placer import errors
from placer.cli import _topo_check, _topo_diff, _topo_export, _topo_fabric, _topo_sources

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
    topology = _typed(_topo_sources.node(_topo_sources.texts(sources), name), gpu_type)
    if output in ("dot", "svg"):
        _draw(topology, output)
        return
    from placer.cli import _document, _topo_document

    bandwidth = _topo_document.bandwidth_of(topology)
    if output != "table":
        _document.emit("NodeTopology", _topo_document.node(topology, bandwidth), output)
        return
    _show(topology, bandwidth)


def _typed(topology: topo.NodeTopology, gpu_type: str | None) -> topo.NodeTopology:
    """The topology with `gpu_type` as model of the GPUs that have none; said in `assumed`."""
    import msgspec

    if gpu_type is None or all(gpu.model for gpu in topology.gpus):
        return topology
    gpus = tuple(gpu if gpu.model else msgspec.structs.replace(gpu, model=gpu_type) for gpu in topology.gpus)
    assumed = (*topology.assumed, f"GPUs are {errors.printable(gpu_type)}, as given")
    return msgspec.structs.replace(topology, gpus=gpus, assumed=assumed)


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
    if any(nic.bus_id or nic.speed_gbits or nic.numa for nic in topology.nics):
        _render.say()
        _render.table(*_topo_document.nic_rows(topology))
    if topology.switches:
        _render.say()
        _render.table(*_topo_document.switch_rows(topology))
    for text in topology.warnings:
        _render.warn(text)
    for text in topology.assumed:
        _render.note(f"assumed: {text}")


for _verb in (_topo_fabric.command, _topo_export.command, _topo_check.command, _topo_diff.command):
    command.add_command(_verb)
