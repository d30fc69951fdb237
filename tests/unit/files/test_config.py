from __future__ import annotations

import pathlib

import pytest

from placer import errors
from placer.files import config


def environ(tmp_path: pathlib.Path, text: str | None = None, named: str | None = None) -> dict[str, str]:
    """An environment whose home holds a configuration, and another named by PLACER_CONFIG."""
    folder = tmp_path / "xdg" / "placer"
    folder.mkdir(parents=True)
    if text is not None:
        (folder / "config.yaml").write_text(text)
    found = {"XDG_CONFIG_HOME": str(tmp_path / "xdg"), "HOME": str(tmp_path)}
    if named is not None:
        (tmp_path / "named.yaml").write_text(named)
        found["PLACER_CONFIG"] = str(tmp_path / "named.yaml")
    return found


def test_load_without_files_gives_the_defaults(tmp_path: pathlib.Path) -> None:
    assert config.load(environ(tmp_path)) == config.Config()


def test_load_later_file_wins_key_by_key(tmp_path: pathlib.Path) -> None:
    env = environ(tmp_path, "topo_dir: /a\nnic_gbits: 100\n", "nic_gbits: 400\noversubscription: {leaf: 2}\n")
    found = config.load(env)
    assert (found.topo_dir, found.nic_gbits, found.oversubscription) == ("/a", 400.0, {"leaf": 2.0})
    origins = {s.name: pathlib.Path(s.origin).name for s in config.settings(env)}
    assert (origins["topo_dir"], origins["nic_gbits"], origins["timeout_seconds"]) == (
        "config.yaml",
        "named.yaml",
        "default",
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("topodir: /a\n", "unknown field `topodir`"),
        ("timeout_seconds: soon\n", "timeout_seconds"),
        ("a: [1\n", "config.yaml:2:1: not YAML"),
        ("- 1\n", "a configuration is a mapping"),
        ("oversubscription: {leaf: x}\n", "oversubscription"),
    ],
)
def test_load_broken_file_names_the_place(tmp_path: pathlib.Path, text: str, message: str) -> None:
    with pytest.raises(errors.InputError, match=message):
        config.load(environ(tmp_path, text))


def test_load_named_file_that_is_missing_is_an_error(tmp_path: pathlib.Path) -> None:
    env = {**environ(tmp_path), "PLACER_CONFIG": str(tmp_path / "gone.yaml")}
    with pytest.raises(errors.InputError, match=r"gone\.yaml: No such file"):
        config.load(env)


def test_load_large_file_is_refused(tmp_path: pathlib.Path) -> None:
    with pytest.raises(errors.ParseError, match="1 MiB"):
        config.load(environ(tmp_path, "#" * (config.MAX_BYTES + 1)))
