from __future__ import annotations

import pathlib
import sys
import time

import pytest

from placer import errors
from placer.slurm import client, snapshot

FIXTURES = pathlib.Path(__file__).parents[3] / "fixtures" / "slurm"
FILES = {
    ("show", "config"): "scontrol_show_config.txt",
    ("show", "node", "-d"): "scontrol_show_node_d.txt",
    ("show", "job", "-d"): "scontrol_show_job_d.txt",
    ("show", "partition"): "scontrol_show_partition.txt",
    ("show", "topology"): "scontrol_show_topology.txt",
    ("show", "nodes", "--json"): "scontrol_show_nodes_json.txt",
    ("show", "jobs", "--json"): "scontrol_show_jobs_json.txt",
}


class Fake:
    """Answers with what a real scontrol of that release printed."""

    def __init__(self, release: str) -> None:
        self.folder = FIXTURES / release
        self.commands: list[client.Command] = []
        self.replies: dict[tuple[str, ...], client.Completed] = {}

    def __call__(self, command: client.Command) -> client.Completed:
        self.commands.append(command)
        words = command.argv[1:]
        if words in self.replies:
            return self.replies[words]
        file = self.folder / FILES[words]
        if not file.exists():
            return client.Completed(1, b"", b"error: no serializer\n")
        return client.Completed(0, file.read_bytes())

    @property
    def asked(self) -> list[str]:
        return [" ".join(command.argv[1:]) for command in self.commands]


def test_record_22_05_asks_text_in_five_commands() -> None:
    fake = Fake("22.05")
    kept = client.record(run=fake, now=lambda: 1796079807)
    assert fake.asked == ["show config", "show node -d", "show job -d", "show partition", "show topology"]
    assert len(snapshot.build(kept).jobs) == 20
    assert kept.taken == 1796079807


def test_record_26_05_asks_json_and_the_text_that_tells_exclusive() -> None:
    fake = Fake("26.05")
    made = snapshot.build(client.record(run=fake))
    assert len(fake.asked) == 6
    assert {job.id for job in made.jobs if job.request.exclusive} == {"4", "9", "17"}


def test_record_without_json_falls_back_on_text_in_six_commands() -> None:
    fake = Fake("24.11")
    made = snapshot.build(client.record(run=fake))
    assert len(fake.asked) == 6
    assert fake.asked[1:4] == ["show nodes --json", "show node -d", "show job -d"]
    assert len(made.jobs) == 20


def test_record_keeps_the_environment_and_fixes_the_form() -> None:
    fake = Fake("22.05")
    client.record(run=fake, environ={"SLURM_CONF": "/x", "LC_ALL": "de_DE", "SLURM_TOPO_LEN": "10", "PATH": "/bin"})
    environ = dict(fake.commands[0].environ)
    assert environ["SLURM_CONF"] == "/x"
    assert (environ["LC_ALL"], environ["TZ"], environ["SLURM_TIME_FORMAT"]) == ("C", "UTC", "standard")
    assert "SLURM_TOPO_LEN" not in environ


def test_record_gives_every_command_the_time_that_is_left() -> None:
    ticks = iter(range(100))
    fake = Fake("22.05")
    client.record(run=fake, timeout_seconds=10, clock=lambda: float(next(ticks)))
    assert [command.timeout_seconds for command in fake.commands] == [9.0, 8.0, 7.0, 6.0, 5.0]


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("nan")])
def test_record_with_no_time_is_a_usage_error_and_asks_nothing(seconds: float) -> None:
    fake = Fake("22.05")
    with pytest.raises(errors.UsageError, match="seconds"):
        client.record(run=fake, timeout_seconds=seconds)
    assert fake.asked == []


def test_record_without_end_gives_at_most_a_day() -> None:
    fake = Fake("22.05")
    client.record(run=fake, timeout_seconds=float("inf"), clock=lambda: 0.0)
    assert {command.timeout_seconds for command in fake.commands} == {86400.0}


def test_record_past_the_deadline_raises_timeout_with_hint() -> None:
    ticks = iter((0.0, 1.0, 11.0))
    with pytest.raises(errors.CommandTimeoutError) as caught:
        client.record(run=Fake("22.05"), timeout_seconds=10, clock=lambda: next(ticks))
    assert caught.value.hint == "scontrol ping"
    assert caught.value.exit_code == 4


@pytest.mark.parametrize(
    ("raised", "expected"),
    [
        (FileNotFoundError(), errors.CommandMissingError),
        (PermissionError(13, "Permission denied"), errors.CommandFailedError),
        (TimeoutError(), errors.CommandTimeoutError),
        (OverflowError(), errors.CommandFailedError),
    ],
)
def test_record_trouble_of_the_runner_has_its_error(raised: Exception, expected: type[errors.PlacerError]) -> None:
    def run(command: client.Command) -> client.Completed:
        raise raised

    with pytest.raises(expected) as caught:
        client.record(run=run)
    assert caught.value.hint


def test_record_slurmctld_down_says_what_scontrol_said() -> None:
    fake = Fake("22.05")
    complaint = b"slurm_load_ctl_conf error: Unable to contact slurm controller (connect failure)\n"
    fake.replies[("show", "config")] = client.Completed(1, b"", complaint)
    with pytest.raises(errors.CommandFailedError, match="Unable to contact slurm controller") as caught:
        client.record(run=fake)
    assert caught.value.hint == "scontrol ping"


def test_record_topology_that_says_no_is_left_out() -> None:
    fake = Fake("22.05")
    fake.replies[("show", "topology")] = client.Completed(1, b"", b"No topology information available\n")
    assert client.record(run=fake).text("scontrol_show_topology.txt") is None


def test_record_reads_conf_files_beside_slurm_conf(tmp_path: pathlib.Path) -> None:
    (tmp_path / "gres.conf").write_text("Name=gpu Count=1\n")
    fake = Fake("22.05")
    config = (FIXTURES / "22.05" / "scontrol_show_config.txt").read_text()
    moved = config.replace("/srv/lab/etc/slurm.conf", str(tmp_path / "slurm.conf"))
    fake.replies[("show", "config")] = client.Completed(0, moved.encode())
    kept = client.record(run=fake)
    assert kept.text("gres.conf") == "Name=gpu Count=1\n"
    assert kept.text("topology.conf") is None


def command(code: str, seconds: float = 20.0, most: int = 1 << 20) -> client.Command:
    return client.Command((sys.executable, "-I", "-c", code), {"LC_ALL": "C"}, seconds, most)


def test_run_command_returns_both_streams_and_the_code() -> None:
    code = "import sys; print('out'); sys.stderr.write('err'); sys.exit(3)"
    assert client.run_command(command(code)) == client.Completed(3, b"out\n", b"err")


def test_run_command_slow_program_is_ended() -> None:
    start = time.monotonic()
    with pytest.raises(TimeoutError):
        client.run_command(command("import time; time.sleep(60)", seconds=0.5))
    assert time.monotonic() - start < 20


def test_run_command_endless_output_is_bounded() -> None:
    with pytest.raises(OverflowError):
        client.run_command(command("while True: print('x' * 65536)", most=1 << 20))


def test_run_command_missing_program_raises_file_not_found() -> None:
    with pytest.raises(FileNotFoundError):
        client.run_command(client.Command(("no-such-program-here",), {"PATH": "/nonexistent"}, 5.0))
