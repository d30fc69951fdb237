"""The sandbox itself: starts, heals, and leaves nothing behind, not even after a crash."""

import errno
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import time

import pytest

from placer import errors
from placer.cluster import types as cluster
from placer.files import recordings
from placer.sandbox import emulated, home, install, processes, slurm, slurm_files
from placer.slurm import client, snapshot

pytestmark = pytest.mark.real_slurm

TWO_NODES = emulated.EmulatedCluster(
    nodes=tuple(
        emulated.EmulatedNode(f"n{i}", 2, 4, 1, 8000, tuple(emulated.EmulatedGpu("t4") for _ in range(2)))
        for i in (1, 2)
    ),
    partitions=(cluster.Partition(name="p", nodes=("n1", "n2"), default=True),),
)


def leftovers(directory: pathlib.Path, token: str) -> tuple[processes.Process, ...]:
    layout = slurm_files.Layout(directory)
    return processes.belonging(token, logs=layout.logs, conf=layout.conf, records={})


def mark(directory: pathlib.Path) -> home.Mark:
    found = home.read_mark(slurm_files.Layout(directory))
    assert found is not None
    return found


def scontrol(directory: pathlib.Path, *words: str) -> str:
    environ = {**os.environ, "SLURM_CONF": str(directory / "etc/slurm.conf")}
    return subprocess.run(["scontrol", *words], env=environ, capture_output=True, text=True, timeout=30).stdout


def test_default_sandbox_is_what_slurm_says(slurm_sandbox) -> None:  # type: ignore[no-untyped-def]
    nodes = slurm_sandbox.run("sinfo", "-h", "-N", "-o", "%N %c %G %f %T").split("\n")
    assert nodes[0] == "gpu01 128 gpu:a100:8(S:0-1) a100,ib idle"
    assert nodes[4] == "old1 32 gpu:v100:4(S:0-1) v100 idle"
    switches = slurm_sandbox.run("scontrol", "show", "topology").splitlines()
    assert [re.findall(r"(?:SwitchName|Level|Nodes|Switches)=(\S+)", line) for line in switches] == [
        ["leaf1", "0", "gpu[01-02]"],
        ["leaf2", "0", "gpu[03-04]"],
        ["leaf3", "0", "old[1-2]"],
        ["spine", "1", "gpu[01-04],old[1-2]", "leaf[1-3]"],
    ]


def test_daemons_listen_on_loopback_alone(slurm_sandbox) -> None:  # type: ignore[no-untyped-def]
    port = mark(slurm_sandbox.directory).port
    ports = range(port, port + 7)
    listening = []
    for line in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]:
        address, state = line.split()[1], line.split()[3]
        if state == "0A" and int(address.partition(":")[2], 16) in ports:
            listening.append(address.partition(":")[0])
    assert listening == ["0100007F"] * 7  # 127.0.0.1, slurmctld and six slurmd


def test_job_runs_and_sees_its_gpus(slurm_sandbox, tmp_path) -> None:  # type: ignore[no-untyped-def]
    told = tmp_path / "out"
    job = slurm_sandbox.submit("-N1", "--gpus-per-node=2", "-wgpu02", wrap="echo $SLURM_JOB_GPUS", output=str(told))
    slurm_sandbox.wait(job, "COMPLETED")
    assert told.read_text() == "0,1\n"


def test_snapshot_taken_live_equals_what_scontrol_says(slurm_sandbox) -> None:  # type: ignore[no-untyped-def]
    jobs = [
        slurm_sandbox.submit("-N2", "--gpus-per-node=3", "-c4", "--mem=10G"),
        slurm_sandbox.submit("-pold", "-N1", "--gpus-per-node=1"),
    ]
    for job in jobs:
        slurm_sandbox.wait(job, "RUNNING")
    taken = snapshot.build(client.record(environ=slurm_sandbox.environ))
    said = {}
    for block in slurm_sandbox.run("scontrol", "show", "node", "-d").split("\n\n"):
        fields = dict(re.findall(r"(\S+?)=(\S+)", block))
        if "NodeName" in fields:
            said[fields["NodeName"]] = fields
    assert [node.name for node in taken.nodes] == sorted(said)
    for node in taken.nodes:
        fields = said[node.name]
        index = re.search(r"IDX:([0-9,-]+|N/A)", fields["GresUsed"])
        assert index is not None
        used = [] if index[1] == "N/A" else [part.split("-") for part in index[1].split(",")]
        assert node.gpus_used == tuple(i for span in used for i in range(int(span[0]), int(span[-1]) + 1))
        assert len(node.gpus) == int(fields["Gres"].split(":")[2].split("(")[0])
        assert (node.cpus, node.cpus_used) == (int(fields["CPUTot"]), int(fields["CPUAlloc"]))
        assert (node.memory_mib, node.memory_used_mib) == (int(fields["RealMemory"]), int(fields["AllocMem"]))
    assert sum(len(node.gpus_used) for node in taken.nodes) == 7
    assert {job.id for job in taken.jobs if job.state is cluster.JobState.RUNNING} == set(jobs)


def test_up_again_changes_nothing(slurm_sandbox) -> None:  # type: ignore[no-untyped-def]
    before = slurm.status(slurm_sandbox.directory)
    assert before.state == "running"
    assert slurm.up(slurm_sandbox.directory) == before


def test_up_after_daemons_were_killed_starts_those_again(slurm_installed: None, tmp_path: pathlib.Path) -> None:
    before = {d.name: d.pid for d in slurm.up(tmp_path, TWO_NODES).daemons}
    try:
        for name in ("slurmd.n1", "slurmctld"):
            pid = before[name]
            assert pid is not None
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        assert slurm.status(tmp_path).state == "partial"
        after = {d.name: d.pid for d in slurm.up(tmp_path).daemons}
        assert after["slurmd.n2"] == before["slurmd.n2"]
        assert after["munged"] == before["munged"]
        assert after["slurmd.n1"] not in (None, before["slurmd.n1"])
        assert "State=IDLE" in scontrol(tmp_path, "show", "node", "n1")
    finally:
        slurm.down(tmp_path)


def test_down_ends_jobs_too_and_leaves_nothing(slurm_installed: None, tmp_path: pathlib.Path) -> None:
    slurm.up(tmp_path, TWO_NODES)
    found = mark(tmp_path)
    environ = {**os.environ, "SLURM_CONF": str(tmp_path / "etc/slurm.conf")}
    # a step on both nodes, a child, and one that has left the process tree
    script = "srun sleep 611 & sleep 612 & (setsid sleep 613 &) ; sleep 614"
    argv = ["sbatch", "-N2", "--gpus-per-node=1", "-o", "/dev/null", "--wrap", script]
    subprocess.run(argv, env=environ, check=True, capture_output=True, timeout=30)
    deadline = time.monotonic() + 30
    while len(_sleeping()) < 5 and time.monotonic() < deadline:
        time.sleep(0.1)
    assert len(_sleeping()) == 5
    ended, was_there = slurm.down(tmp_path)
    assert was_there
    assert ended >= 4 + 5  # daemons and sleeps at least
    assert _sleeping() == []
    assert leftovers(tmp_path, found.token) == ()
    assert not tmp_path.exists()
    with socket.socket() as client_socket:
        assert client_socket.connect_ex(("127.0.0.1", found.port)) == errno.ECONNREFUSED
    assert slurm.down(tmp_path) == (0, False)
    assert slurm.status(tmp_path).state == "absent"


def _sleeping() -> list[int]:
    wanted = {f"sleep\x00{n}\x00".encode() for n in (611, 612, 613, 614)}
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes() if entry.name.isdigit() else b""
        except OSError:
            continue
        if any(words.endswith(w) and words.count(b"\x00") == 2 for w in wanted):
            found.append(int(entry.name))
    return found


def test_down_leaves_foreign_processes_alone(slurm_installed: None, tmp_path: pathlib.Path) -> None:
    slurm.up(tmp_path, TWO_NODES)
    # A shell that uses the sandbox, a reader of its log, and a process whose number an old record names.
    user = subprocess.Popen(["sleep", "600"], env={**os.environ, "SLURM_CONF": str(tmp_path / "etc/slurm.conf")})
    reader = subprocess.Popen(["tail", "-f", str(tmp_path / "log/slurmctld.log")], stdout=subprocess.DEVNULL)
    reused = subprocess.Popen(["sleep", "600"])
    record = tmp_path / "run/slurmd.n2.json"
    honest = json.loads(record.read_text())
    try:
        record.write_text(json.dumps({**honest, "pid": reused.pid}))
        slurm.down(tmp_path)
        assert [p.poll() for p in (user, reader, reused)] == [None, None, None]
        assert processes.look(honest["pid"]) is None  # found all the same
    finally:
        for process in (user, reader, reused):
            process.kill()
            process.wait()


CRASHES = {
    "between two daemons": """
        def report(line):
            if line == "starting slurmd.n1":
                os.kill(os.getpid(), signal.SIGKILL)
        slurm.up(where, shape, report=report)
    """,
    "before a daemon was written down": """
        real = processes.subprocess.Popen
        def popen(argv, **rest):
            child = real(argv, **rest)
            if argv[0].endswith("slurmd"):
                os.kill(os.getpid(), signal.SIGKILL)
            return child
        processes.subprocess.Popen = popen
        slurm.up(where, shape)
    """,
    "while writing files": """
        home.make_key = lambda path: os.kill(os.getpid(), signal.SIGKILL)
        slurm.up(where, shape)
    """,
}


def crash(code: str, directory: pathlib.Path) -> None:
    """Run `up` in another process that kills itself half way."""
    import textwrap

    import msgspec

    head = (
        "import os, pathlib, signal, sys, msgspec\n"
        "from placer.sandbox import emulated, home, processes, slurm\n"
        "shape = msgspec.json.decode(sys.argv[2], type=emulated.EmulatedCluster)\n"
        "where = pathlib.Path(sys.argv[1])\n"
    )
    shape = msgspec.json.encode(TWO_NODES).decode()
    done = subprocess.run([sys.executable, "-c", head + textwrap.dedent(code), str(directory), shape], timeout=60)
    assert done.returncode == -signal.SIGKILL


@pytest.mark.parametrize("moment", CRASHES)
def test_down_after_up_was_killed_leaves_nothing(slurm_installed: None, tmp_path: pathlib.Path, moment: str) -> None:
    crash(CRASHES[moment], tmp_path)
    token = mark(tmp_path).token
    if moment == "before a daemon was written down":
        assert not list((tmp_path / "run").glob("slurmd.*.json"))
        assert len(leftovers(tmp_path, token)) >= 3
    slurm.down(tmp_path)
    assert leftovers(tmp_path, token) == ()
    assert not tmp_path.exists()


@pytest.mark.parametrize("moment", CRASHES)
def test_up_after_up_was_killed_completes_it(slurm_installed: None, tmp_path: pathlib.Path, moment: str) -> None:
    crash(CRASHES[moment], tmp_path)
    try:
        status = slurm.up(tmp_path, TWO_NODES)
        assert status.state == "running"
        assert [node.state for node in status.nodes] == ["idle", "idle"]
        daemons = [p for p in leftovers(tmp_path, mark(tmp_path).token) if p.parent in (1, os.getpid())]
        assert len(daemons) == 4  # none twice
    finally:
        slurm.down(tmp_path)


def test_two_sandboxes_side_by_side(slurm_installed: None, tmp_path: pathlib.Path) -> None:
    try:
        first = slurm.up(tmp_path / "a", TWO_NODES)
        second = slurm.up(tmp_path / "b", TWO_NODES)
        assert (first.state, second.state) == ("running", "running")
        slurm.down(tmp_path / "a")
        assert slurm.status(tmp_path / "b").state == "running"
        assert "State=IDLE" in scontrol(tmp_path / "b", "show", "node", "n1")
    finally:
        slurm.down(tmp_path / "a")
        slurm.down(tmp_path / "b")


def test_down_keep_leaves_logs_and_up_uses_them_again(slurm_installed: None, tmp_path: pathlib.Path) -> None:
    slurm.up(tmp_path, TWO_NODES)
    slurm.down(tmp_path, keep=True)
    assert (tmp_path / "log/slurmctld.log").exists()
    assert slurm.status(tmp_path).state == "stopped"
    assert slurm.up(tmp_path).state == "running"
    slurm.down(tmp_path)


def test_up_with_other_nodes_in_a_used_directory_is_refused(slurm_sandbox) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(errors.SandboxError, match="other nodes"):
        slurm.up(slurm_sandbox.directory, TWO_NODES)


def test_up_that_cannot_start_says_why_and_stops_what_it_started(
    slurm_installed: None, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = slurm_files.slurm_conf

    def broken(*positional: object, **named: object) -> str:
        return real(*positional, **named) + "NoSuchKey=1\n"  # type: ignore[arg-type]

    monkeypatch.setattr(slurm_files, "slurm_conf", broken)
    with pytest.raises(errors.SandboxError, match=r"slurm[\w.]* ended: .*"):
        slurm.up(tmp_path, TWO_NODES)
    assert leftovers(tmp_path, mark(tmp_path).token) == ()
    slurm.down(tmp_path)


def test_sandbox_without_munge_runs_where_slurm_can(
    slurm_installed: None, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import msgspec

    found = install.find()
    if "auth_none.so" not in install._plugins(found.slurmctld):
        pytest.skip("this Slurm has no auth/none")
    without = msgspec.structs.replace(found, munged=None)
    monkeypatch.setattr(install, "find", lambda: without)
    try:
        status = slurm.up(tmp_path, TWO_NODES)
        assert [daemon.name for daemon in status.daemons] == ["slurmctld", "slurmd.n1", "slurmd.n2"]
        environ = {**os.environ, "SLURM_CONF": str(tmp_path / "etc/slurm.conf")}
        argv = ["srun", "-N2", "--gpus-per-node=1", "printenv", "SLURM_JOB_GPUS"]
        answer = subprocess.run(argv, env=environ, capture_output=True, text=True, timeout=60)
        assert answer.returncode in (0, 1), answer.stderr
        assert "AuthType                = auth/none" in scontrol(tmp_path, "show", "config")
    finally:
        slurm.down(tmp_path)


def test_command_up_status_down_in_a_shell(slurm_installed: None, tmp_path: pathlib.Path) -> None:
    where = tmp_path / "s"
    document = tmp_path / "nodes.yaml"
    document.write_text(
        "apiVersion: placer/v1\nkind: ClusterSnapshot\nlevels: [leaf]\n"
        "nodes:\n- {name: 'x[1-2]', gpus: {count: 4, type: h100}, cpus: 32, memory: 64G, domains: {leaf: l1}}\n"
    )
    placer = f"{sys.executable} -m placer sandbox slurm"
    script = (
        f'eval "$({placer} up --dir {where} --nodes {document})" && sinfo -h -o "%N %G" && '
        f"{placer} status --dir {where} -o json && {placer} down --dir {where}"
    )
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    first, _, rest = done.stdout.partition("\n")
    assert first.startswith("x[1-2] gpu:h100:4")
    body = json.loads(rest)
    assert body["kind"] == "SlurmSandbox"
    assert [node["state"] for node in body["nodes"]] == ["idle", "idle"]
    assert body["env"] == {"SLURM_CONF": str(where / "etc/slurm.conf")}
    assert not where.exists()


def test_recorded_cluster_is_emulated_as_it_was(slurm_installed: None, tmp_path: pathlib.Path) -> None:
    recorded = pathlib.Path(__file__).parents[2] / "fixtures/slurm/26.05"
    shape = emulated.from_snapshot(snapshot.build(recordings.read(recorded)))
    try:
        status = slurm.up(tmp_path, shape)
        assert status.state == "running"

        def facts(text: str) -> list[tuple[str, ...]]:
            found = [dict(re.findall(r"(\S+?)=(\S+)", block)) for block in text.split("\n\n")]
            keys = ("NodeName", "Gres", "CPUTot", "RealMemory", "ActiveFeatures", "Sockets", "ThreadsPerCore")
            return [tuple(f[key] for key in keys) for f in found if "NodeName" in f]

        said = facts(scontrol(tmp_path, "show", "node", "-d"))
        assert said == facts((recorded / "scontrol_show_node_d.txt").read_text())
        assert len(said) == 8
    finally:
        slurm.down(tmp_path)
