"""Processes of ours and of others, with harmless ones in their place."""

import os
import pathlib
import signal
import subprocess
import time
from collections.abc import Iterator

import pytest

from placer import errors
from placer.sandbox import processes

TOKEN = "0123456789abcdef"  # noqa: S105 - a test's own


@pytest.fixture
def children() -> Iterator[list[subprocess.Popen[bytes]]]:
    started: list[subprocess.Popen[bytes]] = []
    yield started
    for child in started:
        child.kill()
        child.wait()


def sleeper(children: list[subprocess.Popen[bytes]], **environ: str) -> processes.Process:
    child = subprocess.Popen(["sleep", "600"], env={**os.environ, **environ})
    children.append(child)
    found = processes.look(child.pid)
    assert found is not None
    while b"sleep" not in pathlib.Path(f"/proc/{child.pid}/cmdline").read_bytes():
        time.sleep(0.01)  # not yet the new program: its environment is still ours
    return found


def belonging(tmp_path: pathlib.Path, **records: processes.Process) -> set[int]:
    found = processes.belonging(TOKEN, logs=tmp_path / "log", conf=tmp_path / "slurm.conf", records=records)
    return {process.pid for process in found}


def test_look_at_itself_tells_parent_and_start() -> None:
    found = processes.look(os.getpid())
    assert found is not None
    assert found.parent == os.getppid()
    hertz = os.sysconf("SC_CLK_TCK")
    booted = time.clock_gettime(time.CLOCK_BOOTTIME)
    assert 0 < found.start_ticks / hertz <= booted


def test_look_at_a_zombie_is_none() -> None:
    child = subprocess.Popen(["true"])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert processes.look(child.pid) is None
    child.wait()


def test_start_writes_down_who_it_is_and_stop_ends_it(tmp_path: pathlib.Path) -> None:
    started = processes.start(
        "d", ["sleep", "600"], records=tmp_path, output=tmp_path / "out", environ={"PATH": os.environ["PATH"]}
    )
    assert processes.recorded(tmp_path) == {"d": started}
    assert os.getsid(started.pid) == started.pid
    assert processes.alive(started)
    assert processes.stop([started]) == ()
    assert not processes.alive(started)


def test_start_of_what_cannot_run_is_an_error(tmp_path: pathlib.Path) -> None:
    with pytest.raises(errors.SandboxError, match="No such file"):
        processes.start("d", ["/nowhere/d"], records=tmp_path, output=tmp_path / "out", environ={})


def test_recorded_passes_over_broken_records(tmp_path: pathlib.Path) -> None:
    (tmp_path / "a.json").write_text("{")
    (tmp_path / "b.json").write_text('{"pid": 7, "start_ticks": 8, "boot": "x"}')
    assert processes.recorded(tmp_path) == {"b": processes.Process(7, 8, "x")}


def test_stop_leaves_a_process_that_only_has_the_number(children: list[subprocess.Popen[bytes]]) -> None:
    real = sleeper(children)
    old = processes.Process(real.pid, real.start_ticks - 1, real.boot)
    other_boot = processes.Process(real.pid, real.start_ticks, "another")
    assert not processes.alive(old)
    assert processes.stop([old, other_boot]) == ()
    assert processes.alive(real)


def test_stop_kills_what_does_not_listen(children: list[subprocess.Popen[bytes]], tmp_path: pathlib.Path) -> None:
    ready = tmp_path / "ready"
    child = subprocess.Popen(["sh", "-c", f"trap '' TERM; touch {ready}; while :; do sleep 600; done"])
    children.append(child)
    while not ready.exists():
        time.sleep(0.01)
    found = processes.look(child.pid)
    assert found is not None
    tree = processes.belonging("none", logs=tmp_path, conf=tmp_path, records={"x": found})
    assert processes.stop(tree, grace_seconds=0.3) == ()
    assert child.wait() in (-signal.SIGKILL, 0)  # 0: the number was collected by `stop`
    assert not processes.alive(found)


def test_belonging_finds_by_token_record_and_task_but_nobody_else(
    children: list[subprocess.Popen[bytes]], tmp_path: pathlib.Path
) -> None:
    conf = str(tmp_path / "slurm.conf")
    by_token = sleeper(children, **{processes.TOKEN_VARIABLE: TOKEN})
    by_task = sleeper(children, SLURM_CONF=conf, SLURMD_NODENAME="n1")
    by_record = sleeper(children)
    sleeper(children, SLURM_CONF=conf)  # a person's shell
    sleeper(children, SLURM_CONF=conf + "x", SLURMD_NODENAME="n1")  # another sandbox
    sleeper(children, **{processes.TOKEN_VARIABLE: TOKEN + "0"})
    stale = sleeper(children)
    old = processes.Process(stale.pid, stale.start_ticks + 1, stale.boot)
    assert belonging(tmp_path, a=by_record, b=old) == {by_token.pid, by_task.pid, by_record.pid}


def test_belonging_takes_what_a_found_process_started(
    children: list[subprocess.Popen[bytes]], tmp_path: pathlib.Path
) -> None:
    told = tmp_path / "pid"
    script = f"env -u {processes.TOKEN_VARIABLE} sleep 600 & echo $! > {told}.draft; mv {told}.draft {told}; wait"
    parent = subprocess.Popen(["sh", "-c", script], env={**os.environ, processes.TOKEN_VARIABLE: TOKEN})
    children.append(parent)
    while not told.exists():
        time.sleep(0.01)
    child = int(told.read_text())
    assert belonging(tmp_path) == {parent.pid, child}
    grown = processes.look(child)
    assert grown is not None
    processes.stop([grown])


def test_belonging_ignores_a_writer_that_is_no_daemon(
    children: list[subprocess.Popen[bytes]], tmp_path: pathlib.Path
) -> None:
    log = tmp_path / "log"
    log.mkdir()
    with (log / "slurmd.log").open("w") as sink:
        children.append(subprocess.Popen(["sleep", "600"], stdout=sink))
    assert belonging(tmp_path) == set()


def test_last_words_prefers_the_fatal_line(tmp_path: pathlib.Path) -> None:
    output = tmp_path / "out"
    assert processes.last_words(output) == "it left no log"
    output.write_text("one\nslurmd: fatal: no such thing\nlast\n\n")
    assert processes.last_words(output) == "slurmd: fatal: no such thing"
    output.write_text("one\nlast\n")
    assert processes.last_words(output) == "last"
