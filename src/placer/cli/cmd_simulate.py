"""`placer simulate`: replays of other people's benchmarks; each lies in its own module, imported when it is used."""

from __future__ import annotations

import importlib
from typing import Final

import click

BENCHMARKS: Final[dict[str, tuple[str, str]]] = {
    "openb": ("_simulate_openb", "Packing policies on the public GPU cluster trace"),
    "merge": ("_simulate_merge", "Join the partial results of a split run"),
    "allocator": ("_simulate_allocator", "What NVIDIA's device plugin may answer"),
    "slurm": ("_simulate_slurm", "Nodes, GPUs and CPUs that Slurm itself chooses, by release"),
    "mapa": ("_simulate_mapa", "GPU sets on one multi-GPU server, against published policies"),
}
"""Name -> (module in placer.cli with a click command called `command`, one line of help)."""


class LazyBenchmarks(click.Group):
    """A group that imports a benchmark only when it is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order of the table."""
        return list(BENCHMARKS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one."""
        if cmd_name not in BENCHMARKS:
            return None
        command = importlib.import_module(f"placer.cli.{BENCHMARKS[cmd_name][0]}").command
        assert isinstance(command, click.Command)  # noqa: S101 - a programming error of ours, found by the tests
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List them without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, help_line) for name, (_, help_line) in BENCHMARKS.items()])


@click.group(
    cls=LazyBenchmarks,
    epilog="\b\nExamples:\n"
    "  placer simulate openb --nodes nodes.csv --pods pods.csv --policy fgd --policy placer --seeds 42-44\n"
    "  placer simulate openb --nodes nodes.csv --pods pods.csv --shard 1/8 > part-1.json\n"
    "  placer simulate merge part-*.json -o svg > plot.svg",
)
def command() -> None:
    """Prove a policy on recorded demand: the published policies as published, and placer's own, on the same runs."""
