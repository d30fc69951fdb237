"""Trace files: plain and compressed, and what cannot be read."""

from __future__ import annotations

import gzip
import pathlib

import pytest

from placer import errors
from placer.files import traces
from placer.simulation import openb

TEXT = "sn,cpu_milli,memory_mib,gpu,model\nn1,1000,1,2,T4\n"


ZIPPED = gzip.compress(TEXT.encode(), mtime=0)  # the same bytes, and so the same test names, in every process


@pytest.mark.parametrize(
    "data", [TEXT.encode(), ZIPPED, b"\xef\xbb\xbf" + TEXT.encode()], ids=["plain", "compressed", "marked"]
)
def test_read_nodes_plain_compressed_and_marked(tmp_path: pathlib.Path, data: bytes) -> None:
    path = tmp_path / "nodes.csv"
    path.write_bytes(data)
    assert traces.read_nodes(path) == (openb.Node("n1", 1000, 1, 2, "T4"),)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (ZIPPED[:-9], "broken gzip"),
        (b"\x1f\x8b nothing", "broken gzip"),
        (b"\x00\xff\x00", "no column sn"),
        (b"", "no column sn"),
    ],
    ids=["cut", "no gzip behind its mark", "binary", "empty"],
)
def test_read_nodes_of_other_files_is_an_input_error(tmp_path: pathlib.Path, data: bytes, words: str) -> None:
    path = tmp_path / "nodes.csv"
    path.write_bytes(data)
    with pytest.raises(errors.InputError, match=words):
        traces.read_nodes(path)


@pytest.mark.parametrize("name", ["missing.csv", ".", "a\0b"])
def test_read_text_of_no_file_is_an_input_error(tmp_path: pathlib.Path, name: str) -> None:
    with pytest.raises(errors.InputError):
        traces.read_text(f"{tmp_path}/{name}")


def test_read_text_stops_at_its_limit_also_when_compressed(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(traces, "MAX_BYTES", 1 << 20)
    path = tmp_path / "bomb.csv.gz"
    path.write_bytes(gzip.compress(b"a" * (50 << 20)))
    with pytest.raises(errors.InputError, match="larger than 1 MiB"):
        traces.read_text(path)
