"""Runs one program for a limited time and gives its output."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence

from placer import errors

MAX_OUTPUT = 8 << 20
"""Bytes of output that are looked at; a matrix of 512 devices is below 3 MiB."""
_PATIENCE_SECONDS = 0.5


def run(command: Sequence[str], *, timeout_seconds: float, environment: Mapping[str, str] | None = None) -> str:
    """Standard output of `command`, with `environment` added to this process's own.

    Messages are asked for in English, and variables that would let hwloc look at another machine are left out. Raises
    CommandMissingError, CommandFailedError or CommandTimeoutError.
    """
    program = shutil.which(command[0])
    if program is None:
        raise errors.CommandMissingError(f"{command[0]} is not on PATH", hint=f"command -v {command[0]}")
    shown = " ".join(command)
    try:
        process = subprocess.Popen(
            [program, *command[1:]],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            env={key: value for key, value in os.environ.items() if not key.startswith("HWLOC_")}
            | {"LC_ALL": "C"}
            | dict(environment or {}),
        )
    except OSError as error:
        raise errors.CommandFailedError(f"`{shown}` cannot be run: {error.strerror}", hint=f"ls -l {program}") from None
    try:
        output, complaint = process.communicate(timeout=timeout_seconds)
    except subprocess.TimeoutExpired:
        message = f"`{shown}` did not answer in {timeout_seconds:g} s"
        raise errors.CommandTimeoutError(message, hint=f"time {shown}") from None
    finally:
        _end(process)
    if process.returncode != 0:
        words = (complaint.strip() or output.strip()).decode(errors="replace")
        first = errors.printable(words.split("\n")[0]) if words else f"exit status {process.returncode}"
        raise errors.CommandFailedError(f"`{shown}` failed: {first}", hint=shown)
    return output[:MAX_OUTPUT].decode(errors="replace")


def _end(process: subprocess.Popen[bytes]) -> None:
    """Leave no child behind, nor wait for one that the kernel does not let go: nvidia-smi on a lost GPU."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=_PATIENCE_SECONDS)
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            stream.close()
