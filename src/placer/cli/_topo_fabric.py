"""`placer topo fabric`: what lies between the nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from placer.cli import _sources, _topo_forms, _topo_sources

if TYPE_CHECKING:
    from placer.topology import types as topo


@click.command(
    name="fabric",
    epilog="\b\nExamples:\n"
    "  placer topo fabric fixtures/topo/fabric-two-level.conf\n"
    "  placer topo fabric fixtures/fabric/two-islands.yaml --topology racks -o json\n"
    "  placer topo fabric fixtures/fabric/rails.ibnetdiscover\n"
    "  placer topo fabric fixtures/fabric/nodes.yaml --labels example.net/rack,example.net/hall\n"
    "  placer topo fabric fixtures/fabric/hosts.csv --columns host=host,rack=pod+rack,pod=pod\n"
    "  scontrol show topology | placer topo fabric -\n"
    "  kubectl get nodes -o json | placer topo fabric -",
)
@click.argument("paths", nargs=-1, metavar="[SOURCE]...")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json", "yaml", "dot", "svg"]),
    default="table",
    help="Form of the answer.",
)
@_topo_forms.options
@_sources.options
def command(paths: tuple[str, ...], output: str, choice: _topo_forms.Choice, source: _sources.SourceOptions) -> None:
    """Show the levels and domains between the nodes, and what looks wrong.

    SOURCE is a `topology.conf` or `topology.yaml`, the output of `scontrol show topology` or of `ibnetdiscover`, a
    cluster model of topograph, a table with a header (host, then levels closest first), Kubernetes Nodes with labels,
    HyperNodes or a snapshot document; `-` is standard input. Without one, the fabric of the snapshot or of the cluster
    is shown. Levels are listed closest first.
    """
    from placer.cli import _document, _topo_document

    found = _topo_sources.fabric(_topo_sources.texts(paths), choice, source)
    if output in ("dot", "svg"):
        draw(found, output)
        return
    checks = _topo_document.fabric_checks(found.fabric, found.nodes)
    if output != "table":
        _document.emit("Fabric", _topo_document.fabric(found.fabric, found.origin, checks), output)
        return
    _show(found, checks)


def draw(found: _topo_forms.Found, output: str) -> None:
    """Print a fabric as a picture, `dot` or `svg`."""
    from placer.cli import _render

    if output == "dot":
        from placer.topology import graph

        _render.say(graph.fabric_dot(found.fabric).rstrip("\n"))
    else:
        from placer.report import svg

        _render.say(svg.fabric(found.fabric).rstrip("\n"))


def _show(found: _topo_forms.Found, checks: list[str]) -> None:
    from placer import errors, hostlist
    from placer.cli import _render
    from placer.topology import fabric as fabrics

    made = found.fabric
    if not made.levels:
        what = f"a {made.kind} topology" if made.kind in ("flat", "ring", "torus3d") else "no fabric is known"
        _render.say(f"{what}: every node counts as equally far from every other")
    else:
        rows = [
            [made.levels[d.level].name, d.name, d.parent or "-", str(len(d.nodes)), hostlist.fold(d.nodes)]
            for level in reversed(range(len(made.levels)))
            for d in fabrics.domains_of(made, level)
        ]
        printable = [[errors.printable(cell, 4000) for cell in row] for row in rows]
        title = (
            f"{made.kind}: {' < '.join(_level(level) for level in made.levels)}, {len(fabrics.nodes_of(made))} nodes"
        )
        _render.table(["level", "domain", "below", "size", "nodes"], printable, title=errors.printable(title, 500))
    for text in (*made.warnings, *checks):
        _render.warn(text)


def _level(level: topo.Level) -> str:
    return level.name if level.oversubscription is None else f"{level.name} ({level.oversubscription:g}:1)"
