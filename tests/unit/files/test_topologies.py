"""Topology files: encodings, limits, what cannot be read, and directories."""

from __future__ import annotations

import io
import os
import pathlib
import sys

import pytest

from placer import errors
from placer.files import topologies

MATRIX = "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tPIX\t0-3\nGPU1\tPIX\t X \t0-3\n"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_read_any_encoding_with_a_mark_gives_the_same(tmp_path: pathlib.Path, encoding: str) -> None:
    path = tmp_path / "gpu01.txt"
    path.write_bytes(MATRIX.encode(encoding))
    node = topologies.read(path)
    assert (node.name, node.source, node.links[0].label) == ("gpu01", str(path), "PIX")


def test_read_broken_bytes_after_the_matrix_do_no_harm(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "gpu01.txt"
    path.write_bytes(MATRIX.encode() + b"\n\xff\xfe\x00\x80\n")
    assert topologies.read(path, name="n9").name == "n9"


def test_read_stdin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(MATRIX.encode())))
    node = topologies.read("-")
    assert (node.name, node.source, len(node.gpus)) == ("stdin", "stdin", 2)


def test_read_closed_stdin_is_an_input_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(errors.InputError, match="standard input is closed"):
        topologies.read("-")


def test_read_endless_file_stops_at_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topologies, "MAX_BYTES", 1 << 20)
    with pytest.raises(errors.InputError, match="/dev/zero is larger than 1 MiB"):
        topologies.read("/dev/zero")


def test_read_missing_file_and_directory_are_named(tmp_path: pathlib.Path) -> None:
    with pytest.raises(errors.InputError, match="does not exist") as missing:
        topologies.read(tmp_path / "no.txt")
    assert missing.value.hint == f"ls -l {tmp_path}"
    with pytest.raises(errors.InputError, match="is a directory"):
        topologies.read(tmp_path)
    with pytest.raises(errors.InputError, match="cannot be read"):
        topologies.read("a\0b")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_read_forbidden_file_is_named(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "gpu01.txt"
    path.write_text(MATRIX)
    path.chmod(0)
    with pytest.raises(errors.InputError, match="may not be read"):
        topologies.read(path)


def test_read_directory_is_in_natural_order_and_skips_the_broken(tmp_path: pathlib.Path) -> None:
    for name in ("gpu10.txt", "gpu9.txt", "notes.md", ".gpu8.txt"):
        (tmp_path / name).write_text(MATRIX)
    (tmp_path / "gpu1.txt").write_text("nonsense")
    (tmp_path / "gpu2.txt").mkdir()
    nodes, warnings = topologies.read_directory(tmp_path)
    assert [node.name for node in nodes] == ["gpu9", "gpu10"]
    assert [f"gpu{i}.txt" in text for i, text in zip((1, 2), warnings, strict=True)] == [True, True]


def test_read_directory_that_is_none_is_an_input_error(tmp_path: pathlib.Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(errors.InputError, match="is a file"):
        topologies.read_directory(tmp_path / "file")
    with pytest.raises(errors.InputError, match="does not exist"):
        topologies.read_directory(tmp_path / "no")
