"""One real Slurm of each release for a whole test session, and what tests do with it."""

import contextlib
import os
import pathlib
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator

import pytest
from tests.slurm import releases

from placer import errors
from placer.sandbox import install, slurm

INSTALLED = "installed"
RELEASES = (INSTALLED, *(release.name for release in releases.NEWER))


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


@contextlib.contextmanager
def _first_on_path(folder: pathlib.Path) -> Iterator[None]:
    before = os.environ["PATH"]
    os.environ["PATH"] = f"{folder}{os.pathsep}{before}"
    try:
        yield
    finally:
        os.environ["PATH"] = before


@contextlib.contextmanager
def _newer(name: str) -> Iterator[Cluster]:
    """The default sandbox with a release that is not the installed one; skips where that cannot be."""
    release = next(release for release in releases.NEWER if release.name == name)
    with contextlib.ExitStack() as stack:
        try:
            programs = stack.enter_context(releases.programs(release, os.environ))
        except releases.NotHereError as error:
            if os.environ.get("CI"):
                pytest.fail(str(error), pytrace=False)
            pytest.skip(str(error))
        directory = pathlib.Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="pl", ignore_cleanup_errors=True))
        )
        stack.callback(slurm.down, directory)
        with _first_on_path(programs):
            slurm.up(directory)
        yield Cluster(directory, programs)


@pytest.fixture(
    scope="session", params=[pytest.param(name, marks=pytest.mark.xdist_group(f"slurm-{name}")) for name in RELEASES]
)
def release_session(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """The default sandbox of each release, started once."""
    if request.param == INSTALLED:
        yield request.getfixturevalue("slurm_session")
    else:
        with _newer(request.param) as cluster:
            yield cluster


@pytest.fixture
def slurm_release(release_session: Cluster) -> Iterator[Cluster]:
    """The sandbox of one release without jobs; a test that takes it runs on every release."""
    release_session.cancel_all()
    yield release_session
    release_session.cancel_all()


@pytest.fixture
def slurm_sandbox(slurm_session: Cluster) -> Iterator[Cluster]:
    """The session's sandbox without jobs: gpu[01-04] of 8 A100 under two leaves, old[1-2] of 4 V100 under a third."""
    slurm_session.cancel_all()
    yield slurm_session
    slurm_session.cancel_all()
