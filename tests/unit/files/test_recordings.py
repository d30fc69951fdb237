"""Recordings: directories of raw output."""

from __future__ import annotations

import os
import pathlib

import pytest

from placer import errors
from placer.cluster import recording
from placer.files import recordings

DATA = pathlib.Path(os.environ.get("PLACER_DATA", pathlib.Path(__file__).parents[4] / "shared" / "data"))


def _tree(folder: pathlib.Path, **files: str | bytes) -> pathlib.Path:
    for name, content in files.items():
        path = folder / name.replace("__", "/").replace("_txt", ".txt")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


def test_read_gives_files_and_those_of_folders_in_natural_order(tmp_path: pathlib.Path) -> None:
    _tree(tmp_path, b_txt="B", a_txt="A", topo__n10_txt="ten", topo__n9_txt="nine", topo__deep__x_txt="no")
    (tmp_path / ".hidden").write_text("no")
    kept = recordings.read(tmp_path)
    assert kept.origin == str(tmp_path)
    assert kept.entries == (("a.txt", "A"), ("b.txt", "B"), ("topo/n9.txt", "nine"), ("topo/n10.txt", "ten"))
    assert kept.under("topo") == (("n9.txt", "nine"), ("n10.txt", "ten"))


def test_read_bytes_that_are_no_text_are_replaced(tmp_path: pathlib.Path) -> None:
    assert recordings.read(_tree(tmp_path, a_txt=b"x\xffy")).text("a.txt") == "x\ufffdy"


def test_read_symlink_inside_is_followed_and_outside_refused(tmp_path: pathlib.Path) -> None:
    inside = _tree(tmp_path / "rec", a_txt="A")
    (inside / "b.txt").symlink_to("a.txt")
    assert recordings.read(inside).text("b.txt") == "A"
    (tmp_path / "secret").write_text("s")
    (inside / "c.txt").symlink_to(tmp_path / "secret")
    with pytest.raises(errors.InputError, match="leads out of the recording"):
        recordings.read(inside)


def test_read_folder_that_leads_outside_is_refused(tmp_path: pathlib.Path) -> None:
    inside = _tree(tmp_path / "rec", a_txt="A")
    (inside / "topo").symlink_to(_tree(tmp_path / "other", x_txt="s"))
    with pytest.raises(errors.InputError, match="leads out of the recording"):
        recordings.read(inside)


def test_read_recording_that_is_itself_behind_a_symlink_is_read(tmp_path: pathlib.Path) -> None:
    _tree(tmp_path / "rec", a_txt="A")
    (tmp_path / "latest").symlink_to("rec")
    assert recordings.read(tmp_path / "latest").text("a.txt") == "A"


def test_read_pipe_is_passed_over(tmp_path: pathlib.Path) -> None:
    os.mkfifo(_tree(tmp_path, a_txt="A") / "pipe")
    assert [name for name, _ in recordings.read(tmp_path).entries] == ["a.txt"]


@pytest.mark.parametrize("name", ["none", "file.txt", "a\0b"])
def test_read_of_no_directory_is_an_input_error(tmp_path: pathlib.Path, name: str) -> None:
    (tmp_path / "file.txt").write_text("x")
    with pytest.raises(errors.InputError, match="cannot read"):
        recordings.read(tmp_path / name)


def test_read_above_the_limits_is_refused(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _tree(tmp_path, a_txt="x" * 60, b_txt="x" * 60)
    monkeypatch.setattr(recordings, "MAX_TOTAL_BYTES", 100)
    with pytest.raises(errors.InputError, match=r"b\.txt is too large"):
        recordings.read(tmp_path)
    monkeypatch.setattr(recordings, "MAX_FILES", 1)
    with pytest.raises(errors.InputError, match="more than 1 files"):
        recordings.read(tmp_path)


def test_write_is_read_back_equal(tmp_path: pathlib.Path) -> None:
    entries = (("a.txt", "A\n"), ("topo/n1.txt", "ü"))
    folder = tmp_path / "new" / "rec"
    recordings.write(folder, recording.Recording("live cluster", entries, 1_769_860_800))
    assert recordings.read(folder) == recording.Recording(str(folder), entries, 1_769_860_800)
    assert (folder / "taken.txt").read_text() == "2026-01-31T12:00:00Z\n"
    recordings.write(folder, recording.Recording("again", entries, 5))
    assert recordings.read(folder).taken == 5


@pytest.mark.parametrize(
    "name", ["", "../x", "/etc/x", "a/../b", ".hidden", "a/.b", "a/b/c", "a\0b", "a//b", "a\nb", "x" * 300]
)
def test_write_strange_entry_name_is_refused(tmp_path: pathlib.Path, name: str) -> None:
    with pytest.raises(errors.InputError, match="cannot be the name"):
        recordings.write(tmp_path / "rec", recording.Recording("x", ((name, "text"),)))
    assert not (tmp_path / "rec").exists()


def test_write_does_not_mix_with_another_recording(tmp_path: pathlib.Path) -> None:
    _tree(tmp_path, old_txt="old")
    with pytest.raises(errors.InputError, match=r"already holds `old\.txt`"):
        recordings.write(tmp_path, recording.Recording("x", (("a.txt", "A"),)))


@pytest.mark.parametrize("release", ["22.05", "24.11", "25.11", "26.05"])
def test_read_recorded_slurm_has_its_files(release: str) -> None:
    folder = DATA / "slurm" / release
    if not folder.is_dir():
        pytest.skip(f"no recordings under {DATA}: set PLACER_DATA")
    kept = recordings.read(folder)
    assert {name for name, _ in kept.entries} == {file.name for file in folder.iterdir() if file.is_file()}
    assert kept.text("scontrol_show_node_d.txt") == (folder / "scontrol_show_node_d.txt").read_text()
