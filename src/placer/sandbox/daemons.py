"""The daemons of a sandbox: munged, slurmctld, one slurmd for each node. Starting, asking and ending them."""

from __future__ import annotations

import contextlib
import os
import pathlib
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from typing import Final

from placer import errors
from placer.sandbox import home, install, processes, slurm_files

_COMMAND_SECONDS: Final = 10.0

Report = Callable[[str], None]
"""Called with a line for every step of a long operation."""


def names(mark: home.Mark) -> tuple[str, ...]:
    """Names in the order in which they start."""
    return (*(["munged"] if mark.with_munge else []), "slurmctld", *(f"slurmd.{name}" for name in mark.nodes))


def _environment(mark: home.Mark, layout: slurm_files.Layout) -> dict[str, str]:
    """The daemons' environment: ours without the variables that Slurm and MUNGE read, plus the token."""
    foreign = ("SLURM", "SBATCH_", "SRUN_", "SALLOC_", "MUNGE")
    kept = {key: value for key, value in os.environ.items() if not key.startswith(foreign)}
    return {**kept, processes.TOKEN_VARIABLE: mark.token, "SLURM_CONF": str(layout.conf)}


def start_missing(layout: slurm_files.Layout, mark: home.Mark, installed: install.Installation, report: Report) -> None:
    """Start, in order, every daemon that does not run."""
    records = processes.recorded(layout.run)
    environ = _environment(mark, layout)
    for name in names(mark):
        if not processes.alive(records.get(name)):
            report(f"starting {name}")
            argv = _command(name, layout, installed)
            output = layout.logs / f"{name}.out"
            processes.start(name, argv, records=layout.run, output=output, environ=environ)
            if name == "munged":
                _wait_socket(layout, output)


def _command(name: str, layout: slurm_files.Layout, installed: install.Installation) -> list[str]:
    if name == "munged":
        # --force: a directory above may be closed to others, which munged takes for a mistake.
        run = layout.run
        return [
            installed.munged or "munged",
            "--foreground",
            "--force",
            f"--socket={layout.munge_socket}",
            f"--key-file={run}/munge.key",
            f"--pid-file={run}/munged.pid",
            f"--seed-file={run}/munged.seed",
        ]
    if name == "slurmctld":
        return [installed.slurmctld, "-D", "-f", str(layout.conf)]
    return [installed.slurmd, "-D", "-N", name.removeprefix("slurmd."), "-f", str(layout.conf)]


def _wait_socket(layout: slurm_files.Layout, output: pathlib.Path) -> None:
    deadline = time.monotonic() + _COMMAND_SECONDS
    while time.monotonic() < deadline:
        with socket.socket(socket.AF_UNIX) as client, contextlib.suppress(OSError):
            client.connect(str(layout.munge_socket))
            return
        time.sleep(0.05)
    raise errors.SandboxError(f"munged does not answer: {processes.last_words(output)}", hint=f"cat {output}")


def wait_ready(
    layout: slurm_files.Layout, mark: home.Mark, installed: install.Installation, report: Report, seconds: float
) -> None:
    """Wait until slurmctld knows every node as responding and every slurmd listens."""
    begin = time.monotonic()
    while True:
        _check_running(layout, mark)
        states = node_states(installed.sinfo, layout, mark)
        ready = [
            name for i, name in enumerate(mark.nodes) if _answers(states.get(name)) and _listens(mark.port + 1 + i)
        ]
        if len(ready) == len(mark.nodes):
            return
        report(f"{len(ready)} of {len(mark.nodes)} nodes answer")
        if time.monotonic() - begin > seconds:
            missing = next(name for name in mark.nodes if name not in ready)
            raise errors.SandboxError(
                f"{len(ready)} of {len(mark.nodes)} nodes answer after {seconds:.0f} s; node {missing} is "
                f"{states.get(missing, 'unknown to slurmctld')}",
                hint=f"tail {layout.logs}/slurmctld.log {layout.logs}/slurmd.{missing}.log",
            )
        time.sleep(0.2)


def _check_running(layout: slurm_files.Layout, mark: home.Mark) -> None:
    records = processes.recorded(layout.run)
    for name in names(mark):
        if not processes.alive(records.get(name)):
            output = layout.logs / f"{name}.out"
            raise errors.SandboxError(f"{name} ended: {processes.last_words(output)}", hint=f"tail {output}")


def _answers(state: str | None) -> bool:
    """Whether sinfo's word for a node says that its slurmd has registered and responds."""
    return (
        state is not None and not state.endswith("*") and not state.startswith(("unk", "down", "no_respond", "futur"))
    )


def _listens(port: int) -> bool:
    with socket.socket() as client:
        client.settimeout(1.0)
        return client.connect_ex(("127.0.0.1", port)) == 0


def node_states(sinfo: str, layout: slurm_files.Layout, mark: home.Mark) -> dict[str, str]:
    """Node -> sinfo's word for its state; empty while slurmctld does not answer."""
    if not _listens(mark.port):
        return {}  # sinfo would wait for it, and longer at each try
    argv: Sequence[str] = [sinfo, "--noheader", "-N", "-o", "%N %T"]
    environ = {key: value for key, value in os.environ.items() if not key.startswith(("SINFO_", "SLURM"))}
    try:
        answer = subprocess.run(
            argv,
            capture_output=True,
            text=True,
            timeout=_COMMAND_SECONDS,
            env={**environ, "SLURM_CONF": str(layout.conf)},
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return {}
    pairs = (line.split() for line in answer.stdout.splitlines())
    return {pair[0]: pair[1].lower() for pair in pairs if len(pair) == 2}


def belonging(layout: slurm_files.Layout, mark: home.Mark) -> tuple[processes.Process, ...]:
    """Every running process of the sandbox: daemons, step daemons, jobs."""
    records = processes.recorded(layout.run)
    return processes.belonging(mark.token, logs=layout.logs, conf=layout.conf, records=records)


def stop_all(layout: slurm_files.Layout, mark: home.Mark | None) -> int:
    """End every process of the sandbox; returns how many there were. Raises SandboxError for one that does not end."""
    if mark is None:
        return 0
    count = 0
    for _ in range(5):  # a daemon that is being stopped may still start a step
        found = belonging(layout, mark)
        if not found:
            break
        count += len(found)
        survivors = processes.stop(found)
        if survivors:
            raise errors.SandboxError(
                f"{len(survivors)} processes of the sandbox do not end: {', '.join(str(p.pid) for p in survivors)}"
            )
    for record in layout.run.glob("*.json"):
        record.unlink(missing_ok=True)
    return count
