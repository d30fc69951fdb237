"""Running sandboxes as tests use them, of the installed Slurm or of a newer release."""

import contextlib
import os
import pathlib
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator

import pytest
from tests.slurm import releases

from placer.sandbox import emulated, install, slurm

INSTALLED = "installed"
RELEASES = (INSTALLED, *(release.name for release in releases.NEWER))


def each_release() -> list[object]:
    """Parameters of a fixture that starts every release; tests of one release run in one process."""
    return [pytest.param(name, marks=pytest.mark.xdist_group(f"slurm-{name}")) for name in RELEASES]


class Cluster:
    """The running sandbox as a person at its shell sees it."""

    def __init__(self, directory: pathlib.Path, programs: pathlib.Path | None = None) -> None:
        self.directory = directory
        self.topo_dir = directory / "topo"
        foreign = ("SLURM", "SBATCH_", "SRUN_", "SALLOC_", "SQUEUE_", "SINFO_", "PLACER_")
        kept = {key: value for key, value in os.environ.items() if not key.startswith(foreign)}
        self.environ = {**kept, "SLURM_CONF": str(directory / "etc" / "slurm.conf")}
        if programs is not None:
            self.environ["PATH"] = f"{programs}{os.pathsep}{kept['PATH']}"
        self.release = install.parse_release(self.run("sbatch", "--version"))

    def run(self, *argv: str, cwd: pathlib.Path | None = None) -> str:
        """The output of a Slurm command that has to work."""
        done = subprocess.run(argv, env=self.environ, capture_output=True, text=True, timeout=60, cwd=cwd)
        assert done.returncode == 0, f"{argv}: {done.stderr}"
        return done.stdout

    def submit(self, *options: str, wrap: str = "sleep 600", output: str = "/dev/null") -> str:
        """Submit a batch job; returns its id."""
        return self.run("sbatch", "--parsable", "--output", output, *options, "--wrap", wrap).split(";")[0].strip()

    def state(self, job: str) -> str:
        """Slurm's word for a job's state; empty for a job that it has forgotten."""
        for line in self.run("scontrol", "--oneliner", "show", "job", job).splitlines():
            return next(word.partition("=")[2] for word in line.split() if word.startswith("JobState="))
        return ""

    def wait(self, job: str, *states: str, seconds: float = 30.0) -> str:
        """Wait until a job is in one of the states; returns which."""
        return self.until(lambda: state if (state := self.state(job)) in states else "", seconds=seconds)

    def until(self, ready: Callable[[], str], *, seconds: float = 30.0) -> str:
        """Ask until the answer is not empty."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if answer := ready():
                return answer
            time.sleep(0.1)
        pytest.fail(f"nothing after {seconds} s")

    def cancel_all(self) -> None:
        """Cancel every job and wait until none is left on a node."""
        jobs = self.run("squeue", "-h", "-o", "%A").split()
        if jobs:
            self.run("scancel", *jobs)
            self.until(lambda: "empty" if not self.run("squeue", "-h", "-o", "%A").split() else "")


@contextlib.contextmanager
def _first_on_path(folder: pathlib.Path | None) -> Iterator[None]:
    before = os.environ["PATH"]
    if folder is not None:
        os.environ["PATH"] = f"{folder}{os.pathsep}{before}"
    try:
        yield
    finally:
        os.environ["PATH"] = before


@contextlib.contextmanager
def started(name: str, shape: emulated.EmulatedCluster | None = None) -> Iterator[Cluster]:
    """A sandbox of one of RELEASES; None = the default cluster. Skips where a release cannot be had, fails in CI."""
    with contextlib.ExitStack() as stack:
        programs = None
        if name != INSTALLED:
            release = next(release for release in releases.NEWER if release.name == name)
            try:
                programs = stack.enter_context(releases.programs(release, os.environ))
            except releases.NotHereError as error:
                if os.environ.get("CI"):
                    pytest.fail(str(error), pytrace=False)
                pytest.skip(str(error))
        temporary = tempfile.TemporaryDirectory(prefix="pl", ignore_cleanup_errors=True)
        directory = pathlib.Path(stack.enter_context(temporary))
        stack.callback(slurm.down, directory)
        with _first_on_path(programs):
            slurm.up(directory, shape)
        yield Cluster(directory, programs)
