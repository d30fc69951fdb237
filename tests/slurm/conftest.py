"""One real Slurm of each release for a whole test session, and what tests do with it."""

import os
import pathlib
import tempfile
from collections.abc import Iterator

import pytest
from tests.slurm import clusters
from tests.slurm.clusters import Cluster as Cluster

from placer import errors
from placer.sandbox import install


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
    with clusters.started(clusters.INSTALLED) as cluster:
        yield cluster


@pytest.fixture(scope="session", params=clusters.each_release())
def release_session(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """The default sandbox of each release, started once."""
    if request.param == clusters.INSTALLED:
        yield request.getfixturevalue("slurm_session")
    else:
        with clusters.started(request.param) as cluster:
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
