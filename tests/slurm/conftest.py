"""One real Slurm for a whole test session, and what tests do with it."""

import os
import pathlib
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator

import pytest

from placer import errors
from placer.sandbox import install, slurm


class Cluster:
    """The running sandbox as a person at its shell sees it."""

    def __init__(self, directory: pathlib.Path) -> None:
        self.directory = directory
        self.topo_dir = directory / "topo"
        foreign = ("SLURM", "SBATCH_", "SRUN_", "SALLOC_", "SQUEUE_", "SINFO_", "PLACER_")
        kept = {key: value for key, value in os.environ.items() if not key.startswith(foreign)}
        self.environ = {**kept, "SLURM_CONF": str(directory / "etc" / "slurm.conf")}

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


@pytest.fixture
def tmp_path() -> Iterator[pathlib.Path]:
    """A directory with a short name: pytest's own grow too long for the daemons' sockets when tests run in parallel."""
    with tempfile.TemporaryDirectory(prefix="pl", ignore_cleanup_errors=True) as name:
        yield pathlib.Path(name)


def _require_slurm() -> None:
    """Skip on a person's machine without Slurm; fail in CI."""
    try:
        install.find()
    except errors.SandboxError as error:
        message = f"{error.message}; install it: {error.hint}"
        if os.environ.get("CI"):
            pytest.fail(message, pytrace=False)
        pytest.skip(message)


@pytest.fixture(scope="session")
def slurm_installed() -> None:
    """For tests that start sandboxes of their own."""
    _require_slurm()


@pytest.fixture(scope="session")
def slurm_session(slurm_installed: None) -> Iterator[Cluster]:
    """The default sandbox, started once."""
    with tempfile.TemporaryDirectory(prefix="pl", ignore_cleanup_errors=True) as name:
        directory = pathlib.Path(name)
        slurm.up(directory)
        try:
            yield Cluster(directory)
        finally:
            slurm.down(directory)


@pytest.fixture
def slurm_sandbox(slurm_session: Cluster) -> Iterator[Cluster]:
    """The session's sandbox without jobs: gpu[01-04] of 8 A100 under two leaves, old[1-2] of 4 V100 under a third."""
    slurm_session.cancel_all()
    yield slurm_session
    slurm_session.cancel_all()
