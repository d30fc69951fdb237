"""The configuration: `/etc/placer/config.yaml`, then the user's own, then the file that PLACER_CONFIG names.

Later files win key by key. Unknown keys are errors, so that a misspelt key is not silently without effect.
"""

from __future__ import annotations

import os
import pathlib
from collections.abc import Mapping
from typing import Any

import msgspec
import yaml

from placer import errors

MAX_BYTES = 1 << 20


class Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Every setting with its default."""

    topo_dir: str | None = None
    """Directory of saved `nvidia-smi topo -m` outputs, one `<node>.txt` for each node."""
    timeout_seconds: float = 10.0
    """How long reading a cluster may take."""
    nic_gbits: float | None = None
    """Speed of a network adapter where nothing tells it, in Gbit/s."""
    oversubscription: dict[str, float] = {}
    """Bandwidth below a level divided by the bandwidth above it, by level name."""
    level_labels: list[str] = []
    """Node labels that are the levels of a fabric, closest to the node first; none = every dialect that is known."""
    solve_seconds: float = 10.0
    """How long a search may take before it answers with the best found."""


class Setting(msgspec.Struct, frozen=True):
    """One value, and the file that set it (`default` where none did)."""

    name: str
    value: Any
    origin: str


def paths(environ: Mapping[str, str]) -> tuple[pathlib.Path, ...]:
    """The files that are looked for, in the order they are applied."""
    home = environ.get("XDG_CONFIG_HOME") or str(pathlib.Path(environ.get("HOME", "/")) / ".config")
    found = [pathlib.Path("/etc/placer/config.yaml"), pathlib.Path(home) / "placer" / "config.yaml"]
    if environ.get("PLACER_CONFIG"):
        found.append(pathlib.Path(environ["PLACER_CONFIG"]))
    return tuple(found)


def load(environ: Mapping[str, str] | None = None) -> Config:
    """The configuration in force. Raises an InputError for a file that is broken or cannot be read."""
    return _merge(os.environ if environ is None else environ)[0]


def settings(environ: Mapping[str, str] | None = None) -> tuple[Setting, ...]:
    """Every setting with the file it came from."""
    config, origins = _merge(os.environ if environ is None else environ)
    return tuple(
        Setting(name, getattr(config, name), origins.get(name, "default")) for name in Config.__struct_fields__
    )


def _merge(environ: Mapping[str, str]) -> tuple[Config, dict[str, str]]:
    merged: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for path in paths(environ):
        named = str(path) == environ.get("PLACER_CONFIG")
        values = _read(path, must_exist=named)
        _check(values, str(path))
        merged.update(values)
        origins.update(dict.fromkeys(values, str(path)))
    return msgspec.convert(merged, Config), origins


def _read(path: pathlib.Path, *, must_exist: bool) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        if not must_exist and isinstance(error, FileNotFoundError | NotADirectoryError | PermissionError):
            return {}
        raise errors.InputError(
            f"{path}: {error.strerror}", hint="`placer config path` lists the files that are read"
        ) from None
    if len(data) > MAX_BYTES:
        raise errors.ParseError("a configuration has at most 1 MiB", source=str(path))
    try:
        document = yaml.load(data.decode("utf-8", "replace"), Loader=yaml.CSafeLoader)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        line, column = (mark.line + 1, mark.column + 1) if mark is not None else (1, 1)
        raise errors.ParseError("not YAML", source=str(path), line=line, column=column) from None
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise errors.ParseError("a configuration is a mapping of keys", source=str(path))
    return document


def _check(values: dict[str, Any], source: str) -> None:
    try:
        msgspec.convert(values, Config)
    except (msgspec.ValidationError, TypeError) as error:
        message, _, path = str(error).partition(" - at `$")
        known = ", ".join(Config.__struct_fields__)
        raise errors.DocumentError(
            message, source=source, path=path.rstrip("`").lstrip(".") or "$", hint=f"the keys are: {known}"
        ) from None
