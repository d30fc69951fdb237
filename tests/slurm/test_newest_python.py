"""The unit tests on the newest suite's own Python with the newest PuLP."""

from __future__ import annotations

import os
import pathlib
import subprocess

import pytest
from tests.slurm import releases

pytestmark = [pytest.mark.real_slurm, pytest.mark.timeout(900), pytest.mark.xdist_group("newest-python")]

TESTS = ("tests/unit", "--ignore=tests/unit/cli", "--ignore=tests/unit/test_readme.py")
"""Of every room but the command line: those start the installed `placer` and what is on PATH."""


def test_unit_tests_pass_on_the_newest_python_and_pulp() -> None:
    data = pathlib.Path(os.environ.get("PLACER_DATA") or "../shared/data").resolve()
    quiet = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:benchmark"]
    try:
        with releases.python(releases.NEWER[-1], os.environ, data) as python:
            asked = "import sys, importlib.metadata as m; print(*sys.version_info[:2], m.version('PuLP').split('.')[0])"
            versions = subprocess.run([*python, "-c", asked], capture_output=True, text=True, check=True).stdout.split()
            environ = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PLACER_DATA": str(data)}
            argv = [*python, "-m", "pytest", *quiet, *TESTS]
            done = subprocess.run(argv, env=environ, capture_output=True, text=True)
    except releases.NotHereError as error:
        if os.environ.get("CI"):
            pytest.fail(str(error), pytrace=False)
        pytest.skip(str(error))
    assert (int(versions[0]), int(versions[1])) >= (3, 13)
    assert int(versions[2]) >= 4
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
