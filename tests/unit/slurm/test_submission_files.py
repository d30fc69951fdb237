"""Where scripts are found, and what is never opened."""

from __future__ import annotations

import os
import pathlib

import pytest

from placer.slurm import submission_files


def test_find_of_a_plain_name_takes_the_directory_before_path(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "job.sh").write_text("on path")
    monkeypatch.chdir(tmp_path)
    environ = {"PATH": f"/nowhere:{tmp_path}/bin"}
    assert submission_files.find("job.sh", environ) == f"{tmp_path}/bin/job.sh"
    (tmp_path / "job.sh").write_text("here")
    assert submission_files.find("job.sh", environ) == "job.sh"
    assert submission_files.find("./bin/job.sh", environ) == "./bin/job.sh"


def test_read_file_of_a_pipe_does_not_wait_or_consume(tmp_path: pathlib.Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="not a regular file"):
        submission_files.read_file(str(tmp_path / "pipe"))


def test_reader_of_none_gives_standard_input() -> None:
    assert submission_files.reader({}, b"#!")(None) == b"#!"
