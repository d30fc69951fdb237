"""A live Slurm cluster -> Recording: at most six `scontrol` commands, each one request to slurmctld.

    show config, node, job, partition, topology         one each
    show job -d beside its JSON                         from 26.05, whose JSON does not tell `--exclusive`
    show node -d after its JSON                         where this Slurm was built without JSON

`--json` is used from 24.11 on. Before, the text tells more (22.05 has no JSON of scontrol, 23.02 lacks the GPUs that
jobs hold, 24.05.0 numbers cores wrongly), and it is complete in every release.
"""

from __future__ import annotations

import os
import pathlib
import re
import selectors
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Final

import msgspec

from placer import errors
from placer.cluster import recording as recordings
from placer.slurm import parse_text
from placer.slurm import snapshot as names

MAX_OUTPUT_BYTES: Final = 512 << 20
"""Largest output of one command; the text of 50,000 jobs is about 80 MB, their JSON about 250 MB."""
MAX_CONF_BYTES: Final = 16 << 20
MAX_SECONDS: Final = 86400.0
_JSON_SINCE: Final = (24, 11)
_EXCLUSIVE_NOT_IN_JSON_SINCE: Final = (26, 5)
_PING: Final = "scontrol ping"


class Command(msgspec.Struct, frozen=True):
    """What a runner is asked to run."""

    argv: tuple[str, ...]
    environ: Mapping[str, str]
    timeout_seconds: float
    max_output_bytes: int = MAX_OUTPUT_BYTES

    @property
    def text(self) -> str:
        """As a person would type it."""
        return " ".join(self.argv)


class Completed(msgspec.Struct, frozen=True):
    """What a program left behind."""

    exit_code: int
    stdout: bytes
    stderr: bytes = b""


Run = Callable[[Command], Completed]
"""Runs a command. Raises FileNotFoundError or PermissionError when it cannot be started, TimeoutError when it is slow,
OverflowError when it prints too much."""


def record(
    *,
    run: Run | None = None,
    timeout_seconds: float = 10.0,
    environ: Mapping[str, str] | None = None,
    clock: Callable[[], float] = time.monotonic,
    now: Callable[[], float] = time.time,
) -> recordings.Recording:
    """Everything that `snapshot.build` reads, from the cluster that `scontrol` speaks to.

    `timeout_seconds` is for all commands together, at most a day. Raises CommandMissingError, CommandFailedError,
    CommandTimeoutError; UsageError when it is no positive number.
    """
    if not timeout_seconds > 0:  # not a number, too
        raise errors.UsageError(f"reading the cluster needs some seconds, not {timeout_seconds:g}", hint="--timeout 10")
    session = _Session(run or run_command, min(timeout_seconds, MAX_SECONDS), environ, clock)
    taken = int(now())
    config = session.must("show", "config")
    entries = {names.CONFIG: config}
    release = _release(config)
    if release < _JSON_SINCE or not _take_json(session, release, entries):
        entries[names.NODES_TEXT] = session.must("show", "node", "-d")
        entries[names.JOBS_TEXT] = session.must("show", "job", "-d")
    entries[names.PARTITIONS_TEXT] = session.must("show", "partition")
    topology = session.may("show", "topology")
    if topology is not None:
        entries[names.TOPOLOGY_TEXT] = topology
    entries.update(_conf_files(config))
    return recordings.Recording("live cluster", tuple(entries.items()), taken)


def _take_json(session: _Session, release: tuple[int, int], entries: dict[str, str]) -> bool:
    """Nodes and jobs as JSON; False when this Slurm has no JSON."""
    nodes = session.may("show", "nodes", "--json")
    if nodes is None or not nodes.lstrip().startswith("{"):
        return False
    entries[names.NODES_JSON[0]] = nodes
    entries[names.JOBS_JSON[0]] = session.must("show", "jobs", "--json")
    if release >= _EXCLUSIVE_NOT_IN_JSON_SINCE:
        entries[names.JOBS_TEXT] = session.must("show", "job", "-d")
    return True


class _Session:
    """One deadline over several commands."""

    def __init__(self, run: Run, seconds: float, environ: Mapping[str, str] | None, clock: Callable[[], float]) -> None:
        self._run, self._clock, self._seconds = run, clock, seconds
        self._end = clock() + seconds
        self._environ = _environ(os.environ if environ is None else environ)

    def must(self, *words: str) -> str:
        """What scontrol prints. Raises a SourceError when it fails."""
        command = self._command(words)
        done = self._complete(command)
        if done.exit_code != 0:
            raise errors.CommandFailedError(f"`{command.text}` failed: {_complaint(done)}", hint=_PING)
        return done.stdout.decode("utf-8", "replace")

    def may(self, *words: str) -> str | None:
        """What scontrol prints; None when it says no. Raises a SourceError when it is slow or missing."""
        done = self._complete(self._command(words))
        return done.stdout.decode("utf-8", "replace") if done.exit_code == 0 else None

    def _command(self, words: Sequence[str]) -> Command:
        return Command(("scontrol", *words), self._environ, max(0.0, self._end - self._clock()))

    def _complete(self, command: Command) -> Completed:
        slow = errors.CommandTimeoutError(
            f"`{command.text}` did not answer; {self._seconds:g} seconds were given to all commands", hint=_PING
        )
        if command.timeout_seconds <= 0:
            raise slow
        try:
            return self._run(command)
        except TimeoutError:
            raise slow from None
        except FileNotFoundError:
            raise errors.CommandMissingError(
                "`scontrol` is not on PATH: no Slurm client on this host",
                hint="`placer … --snapshot DIR` reads what was recorded elsewhere",
            ) from None
        except OverflowError:
            raise errors.CommandFailedError(
                f"`{command.text}` printed more than {command.max_output_bytes >> 20} MiB", hint=_PING
            ) from None
        except OSError as error:
            raise errors.CommandFailedError(f"`{command.text}` cannot be run: {error.strerror}", hint=_PING) from None


def _environ(given: Mapping[str, str]) -> dict[str, str]:
    """The caller's environment, with what would change the form of the output put right."""
    changed = {key: value for key, value in given.items() if key != "SLURM_TOPO_LEN"}  # it cuts lines
    changed.update(LC_ALL="C", TZ="UTC", SLURM_TIME_FORMAT="standard", SLURM_JSON="compact")
    return changed


def _complaint(done: Completed) -> str:
    lines = [line.strip() for line in done.stderr.decode("utf-8", "replace").splitlines() if line.strip()]
    return errors.printable(lines[-1], 200) if lines else f"exit status {done.exit_code}"


def _release(config: str) -> tuple[int, int]:
    version = dict(parse_text.config(config)).get("SLURM_VERSION", "")
    match = re.match(r"(\d{1,3})\.(\d{1,3})", version)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def _conf_files(config: str) -> dict[str, str]:
    """gres.conf and topology.conf beside the slurm.conf in use, where they can be read."""
    path = dict(parse_text.config(config)).get("SLURM_CONF", "")
    found: dict[str, str] = {}
    if not path.startswith("/") or "\0" in path:
        return found
    for name in (names.GRES_CONF, names.TOPOLOGY_CONF):
        file = pathlib.Path(path).with_name(name)
        try:
            if file.is_file() and file.stat().st_size <= MAX_CONF_BYTES:
                found[name] = file.read_bytes().decode("utf-8", "replace")
        except OSError:
            continue  # not ours to read; the snapshot says that the wiring is unknown
    return found


# --- running


def run_command(command: Command) -> Completed:
    """The default runner: no shell, no stdin, output bounded while it comes."""
    end = time.monotonic() + command.timeout_seconds
    with subprocess.Popen(
        command.argv,
        env=dict(command.environ),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        try:
            stdout, stderr = _drain(process, end, command.max_output_bytes)
            exit_code = process.wait(max(0.0, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            raise TimeoutError from None
        except (TimeoutError, OverflowError):
            process.kill()
            raise
    return Completed(exit_code, stdout, stderr)


def _drain(process: subprocess.Popen[bytes], end: float, most: int) -> tuple[bytes, bytes]:
    pipes: list[IO[bytes]] = [pipe for pipe in (process.stdout, process.stderr) if pipe is not None]
    chunks: dict[IO[bytes], list[bytes]] = {pipe: [] for pipe in pipes}
    total = 0
    with selectors.DefaultSelector() as selector:
        for pipe in pipes:
            selector.register(pipe, selectors.EVENT_READ)
        while selector.get_map():
            left = end - time.monotonic()
            ready = selector.select(left) if left > 0 else []
            if not ready:
                raise TimeoutError
            for key, _ in ready:
                chunk = os.read(key.fd, 1 << 20)
                total += len(chunk)
                if total > most:
                    raise OverflowError
                pipe = next(pipe for pipe in pipes if pipe.fileno() == key.fd)
                if chunk:
                    chunks[pipe].append(chunk)
                else:
                    selector.unregister(pipe)
    out, err = (b"".join(chunks[pipe]) for pipe in pipes)
    return out, err
