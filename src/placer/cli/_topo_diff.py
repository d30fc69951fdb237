"""`placer topo diff A B`: what changed between two states of a node, or of a fabric."""

from __future__ import annotations

import click
import msgspec

from placer import errors
from placer.cli import _sources, _topo_forms, _topo_sources


@click.command(
    name="diff",
    epilog="\b\nExamples:\n"
    "  placer topo diff fixtures/topo/dgx-1v.txt fixtures/fabric/dgx-1v-link-down.txt\n"
    "  placer topo diff fixtures/topo/fabric-two-level.conf fixtures/fabric/moved.conf -o json\n"
    "  nvidia-smi topo -m | placer topo diff yesterday.txt -",
)
@click.argument("before", metavar="A")
@click.argument("after", metavar="B")
@click.option(
    "-o", "--output", type=click.Choice(["table", "json", "yaml"]), default="table", help="Form of the answer."
)
@_topo_forms.options
@click.pass_context
def command(context: click.Context, before: str, after: str, output: str, choice: _topo_forms.Choice) -> None:
    """Show what changed from A to B: a link down, a GPU gone, a PCIe width halved, another NUMA node, nodes moved.

    A and B are two nodes or two fabrics, of any form. GPUs are the same by UUID or PCI address where both tell it. Exit
    code 0 when nothing changed, 1 when something did.
    """
    from placer.cli import _document, _render
    from placer.topology import fabric_diff, node_diff

    texts = _topo_sources.texts([before, after])
    if _topo_sources.are_fabrics(texts):
        nothing = _sources.SourceOptions()
        old, new = (_topo_sources.fabric([text], choice, nothing).fabric for text in texts)
        changes = fabric_diff.diff(old, new)
    else:
        changes = node_diff.diff(*(_topo_sources.node([text]) for text in texts))
    if output != "table":
        rows = [{**msgspec.structs.asdict(change), "direction": str(change.direction)} for change in changes]
        _document.emit("TopologyDiff", {"a": before, "b": after, "changes": rows}, output)
    elif changes:
        title = f"{errors.printable(before)} -> {errors.printable(after)}"
        rows_of_text = [[str(change.direction), change.what, change.before, change.after] for change in changes]
        _render.table(["change", "what", "before", "after"], rows_of_text, title=title)
    else:
        _render.note("nothing changed")
    if changes:
        context.exit(1)
