"""Whose directory it is, and what happens without Slurm; nothing is started here."""

import os
import pathlib
import socket
import stat

import pytest

from placer import errors
from placer.cli import main
from placer.sandbox import home, install, slurm, slurm_files


def test_own_refuses_a_directory_with_something_else(tmp_path: pathlib.Path) -> None:
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(errors.SandboxError, match="something else"):
        home.own(tmp_path)
    with pytest.raises(errors.SandboxError, match="nothing was touched"):
        slurm.down(tmp_path)
    assert (tmp_path / "thesis.tex").exists()


def test_own_refuses_a_directory_that_others_may_write_to(tmp_path: pathlib.Path) -> None:
    tmp_path.chmod(0o777)
    with pytest.raises(errors.SandboxError, match="alone can write"):
        home.own(tmp_path)


def test_lock_admits_one_at_a_time(tmp_path: pathlib.Path) -> None:
    layout = slurm_files.Layout(tmp_path)
    with home.lock(layout), pytest.raises(errors.SandboxError, match="another placer"), home.lock(layout):
        pass
    with home.lock(layout):
        pass


def test_read_mark_that_is_broken_is_an_error(tmp_path: pathlib.Path) -> None:
    (tmp_path / home.MARK_FILE).write_text("{")
    with pytest.raises(errors.SandboxError, match=r"sandbox\.json"):
        slurm.status(tmp_path)


def test_free_ports_are_neighbours_that_can_be_bound() -> None:
    first = home.free_ports(5)
    for port in range(first, first + 5):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            assert probe.getsockname() == ("127.0.0.1", port)


def test_make_devices_are_null_devices(tmp_path: pathlib.Path) -> None:
    layout = slurm_files.Layout(tmp_path)
    layout.devices.mkdir()
    home.make_devices(layout, 2)
    info = (layout.devices / "nvidia1").stat()
    assert stat.S_ISCHR(info.st_mode)
    assert info.st_rdev == os.makedev(1, 3)


def test_make_key_is_secret(tmp_path: pathlib.Path) -> None:
    home.make_key(tmp_path / "key")
    assert stat.S_IMODE((tmp_path / "key").stat().st_mode) == 0o600
    assert (tmp_path / "key").stat().st_size == 128


@pytest.mark.parametrize(
    ("text", "release"), [("slurm-wlm 22.05.8", (22, 5)), ("slurm 26.05.5", (26, 5)), ("slurm 24.11.0-0rc1", (24, 11))]
)
def test_parse_release_of_what_slurmctld_prints(text: str, release: tuple[int, int]) -> None:
    assert install.parse_release(text) == release


def test_find_without_slurm_names_the_packages(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(install, "_SBIN", ("/nowhere",))
    assert main.invoke(["sandbox", "slurm", "up", "--dir", str(tmp_path / "x")]) == 1
    told = capsys.readouterr()
    assert told.out == ""
    assert "error: Slurm is not installed here: no slurmctld" in told.err
    assert "hint: sudo apt-get install slurm-wlm munge" in told.err
    assert not (tmp_path / "x").exists()


def test_default_directory_is_the_runtime_directory_or_the_users_own(tmp_path: pathlib.Path) -> None:
    assert slurm.default_directory({"XDG_RUNTIME_DIR": str(tmp_path)}) == tmp_path / "placer-slurm"
    assert slurm.default_directory({}).name == f"placer-slurm-{os.getuid()}"


def test_status_of_nothing_is_absent_and_exits_1(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.invoke(["sandbox", "slurm", "status", "--dir", str(tmp_path / "x")]) == 1
    assert capsys.readouterr().out == f"{tmp_path}/x: absent\n"
