"""`placer topo check`: one line for each thing that looks wrong in a node or a fabric."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click
import msgspec

from placer import errors
from placer.cli import _sources, _topo_forms, _topo_sources

if TYPE_CHECKING:
    from placer.topology import checks
    from placer.topology import types as topo

_ERROR = "error"


class Line(msgspec.Struct, frozen=True):
    """A finding as it is printed. `line` is that of the source, where it has one."""

    source: str
    severity: str
    text: str
    line: int | None = None

    def shown(self) -> str:
        """`FILE:LINE: severity: text`."""
        where = self.source if self.line is None else f"{self.source}:{self.line}"
        return f"{errors.printable(where, 300)}: {self.severity}: {self.text}"


@click.command(
    name="check",
    epilog="\b\nExamples:\n"
    "  placer topo check fixtures/fabric/faulty.conf\n"
    "  placer topo check fixtures/topo/dgx-a100.txt fixtures/fabric/model.yaml\n"
    "  placer topo check fixtures/fabric/faulty.conf -o json\n"
    "  scontrol show topology | placer topo check -",
)
@click.argument("paths", nargs=-1, metavar="[SOURCE]...")
@click.option(
    "-o", "--output", type=click.Choice(["table", "json", "yaml"]), default="table", help="Form of the answer."
)
@_topo_forms.options
@_sources.options
@click.pass_context
def command(
    context: click.Context,
    paths: tuple[str, ...],
    output: str,
    choice: _topo_forms.Choice,
    source: _sources.SourceOptions,
) -> None:
    """Print one line for each finding: errors, warnings and notes. Exit code 1 when there is an error.

    SOURCE is all that `placer topo` and `placer topo fabric` read; each is looked at alone. Without one, `--snapshot`
    or `--from` name a cluster whose fabric and nodes are looked at, else it is this host.
    """
    from placer.cli import _document, _render

    found = list(_lines(paths, choice, source))
    if output != "table":
        rows = [msgspec.structs.asdict(entry) for entry in found]
        _document.emit("TopologyCheck", {"findings": rows}, output)
    else:
        for entry in found:
            _render.say(entry.shown())
        if not found:
            _render.note("nothing looks wrong")
    if any(entry.severity == _ERROR for entry in found):
        context.exit(1)


def _lines(paths: Sequence[str], choice: _topo_forms.Choice, source: _sources.SourceOptions) -> Iterator[Line]:
    if not paths and (source.snapshot is not None or source.system not in (None, "host")):
        yield from _cluster(choice, source)
    elif not paths:
        yield from _node(_topo_sources.node(()))
    for text in _topo_sources.texts(paths):
        try:
            if text.text is not None and _topo_forms.is_fabric(text.text):
                yield from _fabric(text.text, text.name, choice)
            else:
                yield from _node(_topo_sources.node([text]))
        except errors.ParseError as error:
            yield _of_error(error)


def _of_error(error: errors.ParseError) -> Line:
    """A text that cannot be read is a finding like others."""
    place = f"{errors.printable(error.source)}:{error.line}:{error.column}: "
    return Line(error.source, _ERROR, error.message.removeprefix(place), error.line)


def _cluster(choice: _topo_forms.Choice, source: _sources.SourceOptions) -> Iterator[Line]:
    from placer.files import config
    from placer.topology import checks

    snapshot = _sources.read(source, config.load())
    origin = source.snapshot or snapshot.source.system
    found = _topo_forms.Found(snapshot.topology.fabric, snapshot.topology.nodes, origin)
    for entry in checks.check_fabric(found.fabric, found.nodes):
        yield _of_finding(origin, entry)
    for machine in snapshot.topology.machines:
        yield from _node(machine)


def _fabric(text: str, source: str, choice: _topo_forms.Choice) -> Iterator[Line]:
    """Faults of the switches as written; of the fabric that they make, only when no error stands in its way."""
    from placer.topology import checks, fabric_checks

    raw = [
        Line(source, str(entry.severity), entry.text, entry.line)
        for entry in fabric_checks.check(_topo_forms.switches(text, source))
    ]
    yield from raw
    if any(entry.severity == _ERROR for entry in raw):
        return
    found = _topo_forms.read([(text, source)], choice)
    # what a reader of switches warns about is among the faults above, with its line
    own = () if raw else found.fabric.warnings
    yield from (Line(source, "warning", text.removeprefix(f"{source}: ")) for text in own)
    for entry in checks.check_fabric(found.fabric, found.nodes):
        yield _of_finding(source, entry)


def _node(node: topo.NodeTopology) -> Iterator[Line]:
    from placer.topology import checks

    yield from (Line(node.source, "warning", text) for text in node.warnings)
    for entry in checks.check(node):
        yield _of_finding(node.source, entry)


def _of_finding(source: str, finding: checks.Finding) -> Line:
    text = f"{finding.text}: {finding.where}" if finding.where else finding.text
    return Line(source, str(finding.severity), text)
