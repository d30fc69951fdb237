"""`placer snapshot take|show`: keep the state of a cluster in a file, or look at one."""

from __future__ import annotations

import pathlib

import click

from placer.cli import _sources


@click.group(
    epilog="\b\nExamples:\n"
    "  placer snapshot take cluster.yaml.gz\n"
    "  placer snapshot show --snapshot fixtures/slurm/24.11\n"
    "  placer place --snapshot cluster.yaml.gz --nodes 2 --gpus-per-node 4"
)
def command() -> None:
    """Keep the state of a cluster in a file, or show one.

    A snapshot answers every question later and elsewhere: give it as `--snapshot` to any verb.
    """


@command.command(
    epilog="\b\nExamples:\n"
    "  placer snapshot take cluster.yaml\n"
    "  placer snapshot take --raw recording/\n"
    "  placer snapshot take --snapshot fixtures/slurm/24.11 - | less"
)
@click.argument("file", required=False)
@click.option("--raw", metavar="DIR", help="Keep what the commands printed instead, one file for each.")
@click.option("--anonymise", is_flag=True, help="Replace the names of users, accounts, jobs and nodes consistently.")
@click.option("--dry-run", is_flag=True, help="Read everything, write nothing, say what would be written.")
@_sources.options
def take(file: str | None, raw: str | None, anonymise: bool, dry_run: bool, source: _sources.SourceOptions) -> None:
    """Write a snapshot to FILE (`.yaml`, `.json`, either with `.gz`; `-` = stdout)."""
    from placer import errors

    if (file is None) == (raw is None):
        raise errors.UsageError("give FILE or `--raw DIR`", hint="`placer snapshot take cluster.yaml`")
    if raw is not None:
        _take_raw(raw, anonymise, dry_run, source)
    else:
        _take_document(str(file), anonymise, dry_run, source)


def _take_raw(directory: str, anonymise: bool, dry_run: bool, source: _sources.SourceOptions) -> None:
    from placer import errors
    from placer.cli import _render
    from placer.files import config, recordings

    if anonymise:
        raise errors.UsageError(
            "raw output cannot be made anonymous", hint="`placer snapshot take --anonymise cluster.yaml`"
        )
    if source.snapshot is not None:
        raise errors.UsageError("raw output comes from a live cluster, not from `--snapshot`")
    recording = _sources.record(source, config.load())
    size = sum(len(text) for _, text in recording.entries)
    if not dry_run:
        recordings.write(pathlib.Path(directory), recording)
    _render.note(
        f"{'would write' if dry_run else 'wrote'} {len(recording.entries)} files, {size} characters, to {directory}"
    )


def _take_document(file: str, anonymise: bool, dry_run: bool, source: _sources.SourceOptions) -> None:
    from placer.cli import _render
    from placer.cluster import anonymous
    from placer.files import config, snapshots

    snapshot = _sources.read(source, config.load())
    if anonymise:
        snapshot = anonymous.of(snapshot)
    counts = f"{len(snapshot.nodes)} nodes and {len(snapshot.jobs)} jobs"
    if file == "-":
        _render.say(snapshots.to_yaml(snapshot).decode().rstrip("\n"))
        return
    if not dry_run:
        snapshots.write(pathlib.Path(file), snapshot)
    _render.note(f"{'would write' if dry_run else 'wrote'} {counts} to {file}")


@command.command(
    epilog="\b\nExamples:\n"
    "  placer snapshot show --snapshot fixtures/slurm/24.11\n"
    "  placer snapshot show --snapshot fixtures/slurm/24.11 -o yaml"
)
@_sources.options
@click.option(
    "-o", "--output", type=click.Choice(["table", "json", "yaml"]), default="table", help="Form of the answer."
)
def show(output: str, source: _sources.SourceOptions) -> None:
    """Show nodes with their free GPUs, CPUs and memory, and what waits."""
    from placer.cli import _render
    from placer.files import config, snapshots

    snapshot = _sources.read(source, config.load())
    if output == "table":
        from placer.cli import _snapshot_table

        _render.say(_snapshot_table.text(snapshot))
    else:
        form = snapshots.to_json if output == "json" else snapshots.to_yaml
        _render.say(form(snapshot).decode().rstrip("\n"))
    for line in (*snapshot.assumptions, *snapshot.left_out):
        _render.note(f"note: {line}")
