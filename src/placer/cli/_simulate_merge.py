"""`placer simulate merge`: the partial results of a split run become one report."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from placer import errors

if TYPE_CHECKING:
    from placer.cli import _simulate_document


@click.command(
    epilog="\b\nExamples:\n  placer simulate merge part-*.json\n  placer simulate merge part-*.json -o svg > plot.svg"
)
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json", "yaml", "svg"]),
    default="table",
    show_default=True,
    help="Form of the answer.",
)
def command(files: tuple[str, ...], output: str) -> None:
    """Join partial results of `placer simulate openb --shard I/N` (JSON or YAML), in any order.

    All parts must come from the same inputs and options, and every run must be there once.
    """
    from placer.cli import _simulate_document as documents
    from placer.cli import _simulate_openb
    from placer.files import snapshots, traces

    parts = []
    for file in files:
        document = snapshots.parse_document(traces.read_text(file).encode(), source=file)
        parts.append((file, documents.read(document, source=file)))
    found = join(parts)
    documents.emit(found, output, _simulate_openb.title(found.setting))


def join(parts: list[tuple[str, _simulate_document.Report]]) -> _simulate_document.Report:
    """(file name, part) -> the whole. Raises InputError for parts of different runs, twice the same, or a gap."""
    from placer.cli import _simulate_document as documents

    first, setting = parts[0][0], parts[0][1].setting
    runs: dict[tuple[str, int], _simulate_document.Run] = {}
    bounds: dict[int, _simulate_document.Bound] = {}
    for file, part in parts:
        if part.setting != setting:
            raise errors.InputError(
                f"{errors.printable(file)} and {errors.printable(first)} differ in inputs or options",
                hint="merge parts of one run only",
            )
        for run in part.runs:
            if (run.policy, run.seed) in runs:
                raise errors.InputError(f"{errors.printable(file)}: {run.policy} with seed {run.seed} is there twice")
            runs[run.policy, run.seed] = run
        bounds |= {bound.seed: bound for bound in part.floor}
    wanted = [(policy, seed) for policy in setting.policies for seed in setting.seeds]
    missing = [key for key in wanted if key not in runs]
    if missing:
        raise errors.InputError(
            f"{len(missing)} of {len(wanted)} runs are missing, the first is {missing[0][0]} with seed {missing[0][1]}",
            hint="give all parts, or run the missing one again with its --shard",
        )
    floors = [bounds[seed] for seed in setting.seeds if seed in bounds]
    return documents.Report(setting, [runs[key] for key in wanted], floors)
