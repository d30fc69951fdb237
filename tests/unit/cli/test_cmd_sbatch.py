"""`placer sbatch` against a stand-in for sbatch that writes down what it was given, byte for byte."""

from __future__ import annotations

import os
import pathlib
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable

import pytest

ROOT = pathlib.Path(__file__).parents[3]
CLUSTER = ROOT / "fixtures" / "slurm" / "24.11"

RECORDER = """#!/bin/sh
cat /proc/$$/environ > "$RECORD/env"
: > "$RECORD/argv"
for word; do printf '%s\\0' "$word" >> "$RECORD/argv"; done
cat > "$RECORD/stdin"
printf 'Submitted batch job 7;x\\377\\n'
printf 'sbatch: a remark\\n' >&2
exit "${FAKE_STATUS:-0}"
"""

SCRIPT = b"#!/bin/bash\n#SBATCH --job-name=t\n#SBATCH --time=10\necho \xff\xfe\n"
GPU_SCRIPT = b"#!/bin/bash\n#SBATCH -N2 --gpus-per-node=4 -p gpu\nsrun x\n"


class World:
    """A directory with programs of its own, and ways to run placer and sbatch in it."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self.bin = folder / "bin"
        self.bin.mkdir()
        self.program("sbatch", RECORDER)
        (folder / "job.sh").write_bytes(SCRIPT)
        (folder / "gpu.sh").write_bytes(GPU_SCRIPT)
        (folder / "my job.sh").write_bytes(SCRIPT)
        self.environ = {
            "PATH": f"{self.bin}:/usr/bin:/bin",
            "HOME": str(folder),
            "PYTHONPATH": str(ROOT / "src"),
            "LANG": "C",
            "ODD": "a\nb \udcff=",
        }

    def program(self, name: str, text: str) -> None:
        path = self.bin / name
        path.write_text(text)
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    def run(
        self, argv: list[str], stdin: bytes = b"", environ: dict[str, str] | None = None, code: str | None = None
    ) -> subprocess.CompletedProcess[bytes]:
        command = [sys.executable, *(["-c", code] if code else ["-m", "placer"]), "sbatch", *argv]
        return self._recorded(command, stdin, environ)

    def direct(
        self, argv: list[str], stdin: bytes = b"", environ: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[bytes]:
        return self._recorded([str(self.bin / "sbatch"), *argv], stdin, environ)

    def _recorded(
        self, command: list[str], stdin: bytes, environ: dict[str, str] | None
    ) -> subprocess.CompletedProcess[bytes]:
        record = self.folder / "record"
        shutil.rmtree(record, ignore_errors=True)
        record.mkdir()
        environment = self.environ | {"RECORD": str(record)} | (environ or {})
        return subprocess.run(command, input=stdin, env=environment, cwd=self.folder, capture_output=True, timeout=60)

    def words(self) -> list[str]:
        return [os.fsdecode(word) for word in self.recorded("argv").split(b"\0")[:-1]]

    def recorded(self, name: str) -> bytes:
        return (self.folder / "record" / name).read_bytes()

    def environment(self) -> set[bytes]:
        return {entry for entry in self.recorded("env").split(b"\0") if not entry.startswith(b"_PLACER_SBATCH=")}


@pytest.fixture
def world(tmp_path: pathlib.Path) -> World:
    return World(tmp_path)


SUBMISSIONS: list[tuple[list[str], bytes, dict[str, str]]] = [
    (["job.sh"], b"", {}),
    (["job.sh", "a b", "", "--placer-off", "-N9", "*", "$x"], b"left alone", {}),
    (["--parsable", "job.sh"], b"", {}),
    (["-N2", "-n", "4", "job.sh"], b"", {}),
    (["-HN2", "job.sh"], b"", {}),
    (["--nodes=2", "--", "job.sh", "--", "x"], b"", {}),
    (["my job.sh"], b"", {}),
    (["./job.sh"], b"", {}),
    (["--wrap", "hostname; date"], b"", {}),
    (["--wrap=a\nb\t'c'"], b"", {}),
    (["--wrap", "hostname", "job.sh"], b"", {}),
    ([], SCRIPT, {}),
    (["--parsable"], SCRIPT, {}),
    ([], b"", {}),
    ([], b"no script at all\n", {}),
    ([], b"#!/bin/sh\n#SBATCH --comment='open\n", {}),
    ([], b"#!/bin/sh\n\0\0" + bytes(range(256)) * 300, {}),
    (["missing.sh"], b"", {}),
    (["--bogus", "job.sh"], b"", {}),
    (["--nod=3", "job.sh"], b"", {}),
    (["-n", "eight", "job.sh"], b"", {}),
    (["--usage"], b"", {}),
    (["--version"], b"", {}),
    (["-V", "-N2"], b"", {}),
    (["--array=0-99%8", "job.sh", "\udcff\udcfe"], b"", {}),
    (["-N1", ":", "-N2", "job.sh"], b"", {}),
    (["-J", "--placer-dry-run", "job.sh"], b"", {}),
    (["--export=ALL,X=1", "--mail-user=me@x", "-d", "afterok:1", "job.sh"], b"", {"SBATCH_TIMELIMIT": "bogus"}),
    (["-t", "1", "job.sh"], b"", {"SBATCH_PARTITION": "p", "SLURM_HOSTFILE": "/nowhere"}),
    (["job.sh"], b"", {"FAKE_STATUS": "1"}),
    (["job.sh"], b"", {"FAKE_STATUS": "143"}),
    (["--gres=shard:1", "job.sh"], b"", {"LC_ALL": "C"}),
    (["job.sh"], b"", {"LC_CTYPE": "POSIX", "PLACER_SBATCH_STRICT": "no"}),
    (["--gpus=4", "gpu.sh"], b"", {"PLACER_SBATCH_OFF": "1"}),
    (["gpu.sh"], b"", {"PLACER_SBATCH_SNAPSHOT": "/nowhere"}),
]


@pytest.mark.parametrize(("argv", "stdin", "environ"), SUBMISSIONS)
def test_sbatch_of_any_submission_is_the_direct_call(
    world: World, argv: list[str], stdin: bytes, environ: dict[str, str]
) -> None:
    direct = world.direct(argv, stdin, environ)
    expected = (world.words(), world.recorded("stdin"), world.environment())
    through = world.run(argv, stdin, environ)
    assert (world.words(), world.recorded("stdin"), world.environment()) == expected
    assert (through.stdout, through.returncode) == (direct.stdout, direct.returncode)
    assert through.stderr.endswith(direct.stderr)
    assert len(through.stderr.removesuffix(direct.stderr).splitlines()) <= 2


@pytest.mark.parametrize("stdin", [None, GPU_SCRIPT])
def test_sbatch_of_a_gpu_job_only_puts_options_in_front(world: World, stdin: bytes | None) -> None:
    argv = ["--placer-snapshot", str(CLUSTER), "--placer-explain", "--parsable", *([] if stdin else ["gpu.sh", "a b"])]
    done = world.run(argv, stdin or b"", {"PLACER_SBATCH_TIMEOUT": "30"})
    words = world.words()
    added = words[: words.index("--parsable")]
    assert words[len(added) :] == ["--parsable", *([] if stdin else ["gpu.sh", "a b"])]
    assert all(word.startswith(("--switches=", "--nodelist=", "--exclude=")) for word in added)
    assert world.recorded("stdin") == (stdin or b"")
    assert done.stderr.startswith((b"placer: fits-now", b"placer: must-wait"))
    assert all(b"added " + os.fsencode(word) in done.stderr for word in added)
    assert done.stdout == b"Submitted batch job 7;x\xff\n"


def test_sbatch_of_a_script_from_a_file_leaves_the_file_position(world: World) -> None:
    command = f'exec < gpu.sh; {sys.executable} -m placer sbatch -N1 ; read rest; echo "rest=$rest"'
    world.program("sbatch", '#!/bin/sh\nread line; echo "$line"\n')
    done = subprocess.run(["sh", "-c", command], env=world.environ, cwd=world.folder, capture_output=True, timeout=60)
    assert done.stdout.splitlines()[0] == b"#!/bin/bash"


def test_sbatch_with_a_real_program_leaves_the_environment_alone(world: World) -> None:
    shutil.copy("/usr/bin/env", world.bin / "sbatch")  # `env -0` prints the environment it was given
    done = world.run(["-0"])
    assert dict(entry.partition(b"=")[::2] for entry in done.stdout.split(b"\0")[:-1]) == {
        os.fsencode(key): os.fsencode(value)
        for key, value in {**world.environ, "RECORD": f"{world.folder}/record"}.items()
    }


def test_sbatch_restores_the_signals_that_python_ignores(world: World) -> None:
    world.program("sbatch", "#!/bin/sh\ngrep SigIgn /proc/$$/status\n")
    found = world.run(["job.sh"]).stdout
    # What the test itself was started with is inherited by both; SIGPIPE (bit 12) is what Python adds.
    assert found == world.direct(["job.sh"]).stdout
    assert int(found.split()[1], 16) >> (signal.SIGPIPE - 1) & 1 == 0


def test_sbatch_that_dies_of_a_signal_is_seen_to(world: World) -> None:
    world.program("sbatch", "#!/bin/sh\nkill -KILL $$\n")
    assert world.run(["job.sh"]).returncode == -signal.SIGKILL


def test_sbatch_without_shebang_runs_as_the_shell_would_run_it(world: World) -> None:
    world.program("sbatch", "echo ran $1\n")
    assert world.run(["job.sh"]).stdout == b"ran job.sh\n"


def test_sbatch_that_is_not_on_path_is_an_error_with_a_hint(world: World) -> None:
    (world.bin / "sbatch").unlink()
    done = world.run(["job.sh"], environ={"PATH": str(world.bin)})
    assert (done.returncode, done.stdout) == (4, b"")
    assert done.stderr.startswith(b"error: `sbatch` is not on PATH\n")


def test_wrapper_that_calls_placer_reaches_the_next_sbatch(world: World) -> None:
    outer = world.folder / "outer"
    outer.mkdir()
    wrapper = outer / "sbatch"
    wrapper.write_text(f'#!/bin/sh\n{sys.executable} -m placer sbatch --comment=w "$@"\n')
    wrapper.chmod(0o755)
    environ = {"PATH": f"{outer}:{world.environ['PATH']}", "PLACER_SBATCH_SNAPSHOT": str(CLUSTER)}
    done = world.run(["job.sh"], environ=environ)
    assert (done.returncode, world.words()) == (0, ["--comment=w", "job.sh"])


def test_mark_of_another_process_is_not_heeded(world: World) -> None:
    done = world.run(["job.sh"], environ={"_PLACER_SBATCH": f"999999999:{world.bin}/sbatch"})
    assert (done.returncode, world.words()) == (0, ["job.sh"])


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        (["job.sh", "a b"], "sbatch job.sh 'a b'"),
        (["--wrap", "it's"], """sbatch --wrap 'it'"'"'s'"""),
        (["--wrap", "a\nb"], "sbatch --wrap $'a\\012b'"),
        (["-N2", "--placer-no-pin", "job.sh"], "sbatch -N2 job.sh"),
    ],
)
def test_dry_run_prints_one_line_and_runs_nothing(world: World, argv: list[str], line: str) -> None:
    done = world.run(["--placer-dry-run", *argv])
    assert (done.stdout.decode(), done.returncode) == (f"{line}\n", 0)
    assert not (world.folder / "record" / "argv").exists()


def test_dry_run_prints_what_bash_reads_back(world: World) -> None:
    words = ["a b", "it's", "new\nline", "tab\t", "\udcff", "$x`y`", "\\", "é", ""]
    done = world.run(["--placer-dry-run", "--wrap=x", *words])
    echo = subprocess.run(
        ["bash", "-c", b"sbatch() { printf '%s\\0' \"$@\"; }; " + done.stdout], capture_output=True, check=True
    )
    assert [os.fsdecode(word) for word in echo.stdout.split(b"\0")[:-1]] == ["--wrap=x", *words]


@pytest.mark.parametrize("argv", [["--placer-dyr-run", "job.sh"], ["--placer-timeout", "soon", "job.sh"],
                                  ["--placer-off=1", "job.sh"], ["--placer-snapshot"]])  # fmt: skip
def test_own_option_that_does_not_exist_is_a_usage_error(world: World, argv: list[str]) -> None:
    done = world.run(argv)
    assert (done.returncode, done.stdout) == (2, b"")
    assert not (world.folder / "record" / "argv").exists()


@pytest.mark.parametrize("seconds", ["soon", "0", "-1", "nan", "1e9"])
def test_environment_that_makes_no_sense_is_warned_of_and_the_job_submitted(world: World, seconds: str) -> None:
    done = world.run(["job.sh"], environ={"PLACER_SBATCH_TIMEOUT": seconds})
    assert world.words() == ["job.sh"]
    assert done.stderr.startswith(b"warning: placer: `PLACER_SBATCH_TIMEOUT` takes seconds")
    assert done.stdout == world.direct(["job.sh"]).stdout


def test_help_ends_with_examples(world: World) -> None:
    done = world.run(["--help"])
    assert done.returncode == 0
    assert b"Examples:" in done.stdout


BREAK = """
import sys
from placer.cli import _sbatch_advise, main
def broken(own, submission):
    {body}
_sbatch_advise.advise = broken
main.run(sys.argv[1:])
"""


@pytest.mark.parametrize(
    "body",
    [
        "raise ValueError('a\\nb')",
        "raise MemoryError",
        "raise SystemExit(7)",
        "raise KeyboardInterrupt",
        "broken(own, submission)",
        "import os; os.abort()",
        "import os; os.kill(os.getpid(), 9)",
        "import os; os._exit(3)",
        "print('noise', flush=True); raise OSError('x')",
        "import time; time.sleep(60)",
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); [None for _ in iter(int, 1)]",
        "import re; re.match('(a+)+$', 'a' * 60 + 'b')",
    ],
)
def test_sbatch_submits_whatever_breaks_in_the_advice(world: World, body: str) -> None:
    started = time.monotonic()
    done = world.run(["--placer-timeout=1", "--parsable", "gpu.sh"], code=BREAK.format(body=body))
    assert (done.returncode, done.stdout) == (0, b"Submitted batch job 7;x\xff\n")
    assert world.words() == ["--parsable", "gpu.sh"]
    (warning, remark) = done.stderr.splitlines()
    assert warning.startswith(b"warning: placer: ")
    assert remark == b"sbatch: a remark"
    assert time.monotonic() - started < 60


@pytest.mark.parametrize(
    "module", ["placer.slurm.submission", "placer.slurm.sbatch_script", "placer.cli._sbatch_worker", "msgspec.json"]
)
def test_sbatch_submits_whatever_breaks_before_the_advice(world: World, module: str) -> None:
    code = f"""
import sys
import {module} as broken
def fail(*args, **kw): raise RecursionError("deep")
for name in ("read", "within", "decode"):
    if hasattr(broken, name): setattr(broken, name, fail)
from placer.cli import main
main.run(sys.argv[1:])
"""
    world.program("scontrol", "#!/bin/sh\nexit 1\n")
    done = world.run(["gpu.sh"], code=code)
    assert (done.returncode, world.words()) == (0, ["gpu.sh"])
    assert done.stderr.startswith(b"warning: placer: ")


def _cut_json(world: World) -> None:
    world.program("scontrol", '#!/bin/sh\nprintf \'{"nodes": [{"name": \'\n')


def _silence(world: World) -> None:
    world.program("scontrol", "#!/bin/sh\nexit 0\n")


def _refusal(world: World) -> None:
    world.program("scontrol", "#!/bin/sh\necho 'Unable to contact slurm controller' >&2\nexit 1\n")


def _garbage(world: World) -> None:
    world.program("scontrol", "#!/bin/sh\nhead -c 100000 /dev/urandom\n")


@pytest.mark.parametrize("breaking", [_cut_json, _silence, _refusal, _garbage])
def test_sbatch_submits_whatever_scontrol_says(world: World, breaking: Callable[[World], None]) -> None:
    for name in ("squeue", "sinfo", "sacctmgr"):
        world.program(name, "#!/bin/sh\nexit 1\n")
    breaking(world)
    done = world.run(["gpu.sh"])
    assert (done.returncode, world.words()) == (0, ["gpu.sh"])
    assert done.stderr.startswith(b"warning: placer: ")


def test_sbatch_does_not_wait_for_a_hanging_scontrol_and_leaves_none_behind(world: World) -> None:
    world.program("scontrol", '#!/bin/sh\necho $$ >> "$HOME/pids"\nexec sleep 300\n')
    started = time.monotonic()
    done = world.run(["--placer-timeout", "5", "gpu.sh"])  # long enough for scontrol to start on a busy machine
    assert time.monotonic() - started < 60  # the sleep would take 300
    assert (done.returncode, world.words()) == (0, ["gpu.sh"])
    pids = [int(pid) for pid in (world.folder / "pids").read_text().split()]
    assert pids
    assert not any(_runs(pid) for pid in pids)


def _runs(pid: int) -> bool:
    try:
        return b"sleep" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def test_interrupt_during_the_advice_ends_placer_as_it_would_end_sbatch(world: World) -> None:
    world.program("scontrol", '#!/bin/sh\necho $$ >> "$HOME/pids"\nexec sleep 300\n')
    command = [sys.executable, "-m", "placer", "sbatch", "--placer-timeout=30", "gpu.sh"]
    environ = world.environ | {"RECORD": str(world.folder)}
    process = subprocess.Popen(command, env=environ, cwd=world.folder, stdin=subprocess.DEVNULL)
    pids = world.folder / "pids"
    while not (pids.exists() and pids.read_text()):
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=10) == -signal.SIGINT
    time.sleep(0.1)
    assert not any(_runs(int(pid)) for pid in pids.read_text().split())
    assert not (world.folder / "argv").exists()


def test_strict_gives_up_when_the_advice_fails(world: World) -> None:
    done = world.run(["--placer-strict", "--placer-snapshot=/nowhere", "gpu.sh"])
    assert done.returncode != 0
    assert done.stderr.startswith(b"error: ")
    assert not (world.folder / "record" / "argv").exists()


def test_strict_does_not_submit_a_job_that_never_fits(world: World) -> None:
    argv = ["--placer-snapshot", str(CLUSTER), "--gpus-per-node=64", "-N2", "--wrap=x"]
    assert world.run(["--placer-strict", *argv]).returncode == 3
    done = world.run(argv)
    assert done.returncode == 0
    assert b"never" in done.stderr.splitlines()[0]


@pytest.mark.parametrize(
    ("script", "warning"),
    [
        ("#SBATCH --gpus-per-task=1 -n4", b"job.sh:2: `--gpus-per-task` hides the other GPUs"),
        ("#sbatch --nodes=2", b"job.sh:2: `#sbatch --nodes=2` is not in upper case and is ignored"),
        ("#SBATCH -N2\nset -e\n#SBATCH -n4", b"job.sh:4: `#SBATCH -n4` stands after the first command (line 3)"),
        ("#SBATCH --exclusive -N1", b"job.sh:2: `--exclusive` gives all CPUs and GPUs"),
        ("#SBATCH -p a", b"SBATCH_PARTITION=gpu in the environment overrides `-p a`"),
        ("#SBATCH -J a#b", b'job.sh:2: `a#b` is read as `a`; #SBATCH -J "a#b"'),
        (
            "#SBATCH -o $USER.out",
            b"job.sh:2: `$USER.out` of `--output` stays as it is written; #SBATCH --output=%u.out",
        ),
        ("#SBATCH -N2 --gpus=8", b"job.sh:2: `--gpus=8` over 2 nodes may be dealt out unevenly"),
    ],
)
def test_sbatch_warns_of_what_hurts_in_one_line(world: World, script: str, warning: bytes) -> None:
    (world.folder / "job.sh").write_text(f"#!/bin/sh\n{script}\n#sbatch -N1\n")
    environ = {"SBATCH_PARTITION": "gpu", "PLACER_SBATCH_SNAPSHOT": str(CLUSTER), "PLACER_SBATCH_EXPLAIN": "1"}
    done = world.run(["job.sh"], environ=environ)
    assert any(warning in line for line in done.stderr.splitlines())
    environ.pop("PLACER_SBATCH_EXPLAIN")
    quiet = world.run(["job.sh"], environ=environ).stderr.splitlines()
    assert sum(line.startswith(b"warning: placer: ") for line in quiet) == 1
