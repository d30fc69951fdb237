"""Recordings on disk: a directory of raw tool output, one file for one command, with folders such as `topo/`."""

from __future__ import annotations

import os
import pathlib
import re
import shlex

from placer import errors, hostlist, units
from placer.cluster import recording
from placer.files import _atomic

MAX_FILE_BYTES = 512 << 20
"""Largest single output; `scontrol show job -d` of 50,000 jobs is about 80 MB."""
MAX_TOTAL_BYTES = 1 << 30
MAX_FILES = 200_000
"""Every node may have one under `topo/`, and more."""

_TAKEN = "taken.txt"
_NAME = re.compile(r"(?!\.)[^/\x00-\x1f\x7f]{1,200}(?:/(?!\.)[^/\x00-\x1f\x7f]{1,200})?\Z")


def read(directory: str | os.PathLike[str]) -> recording.Recording:
    """All regular files of a directory and of its folders, one level deep, in natural order of their names.

    Bytes that are not UTF-8 become U+FFFD. Hidden files are passed over. A file `taken.txt` tells the moment of the
    recording and is no entry. Raises InputError when something cannot be read, is too large, or is a symlink that
    leads out of the directory.
    """
    folder = pathlib.Path(directory)
    entries: dict[str, str] = {}
    total = 0
    for name, file in _files(folder):
        data = _read_bytes(file, min(MAX_FILE_BYTES, MAX_TOTAL_BYTES - total))
        total += len(data)
        entries[name] = data.decode(errors="replace")
    taken = entries.pop(_TAKEN, None)
    return recording.Recording(
        origin=os.fspath(directory),
        entries=tuple((name, entries[name]) for name in hostlist.sort(entries)),
        taken=None if taken is None else units.parse_moment(taken, source=f"{folder}/{_TAKEN}"),
    )


def write(directory: str | os.PathLike[str], kept: recording.Recording) -> None:
    """Writes each entry as a file, each whole or not at all; makes the directory.

    Raises InputError, also when the directory holds files that are not of this recording: they would be read as such.
    """
    folder = pathlib.Path(directory)
    texts = dict(kept.entries)
    if kept.taken is not None:
        texts[_TAKEN] = units.format_moment(kept.taken) + "\n"
    for name in texts:
        if not _NAME.match(name):
            raise errors.InputError(f"`{name}` cannot be the name of a recorded output")
    if folder.exists():
        strange = next((name for name, _ in _files(folder) if name not in texts), None)
        if strange is not None:
            raise errors.InputError(
                f"{folder} already holds `{strange}`", hint=f"choose an empty directory; ls {shlex.quote(str(folder))}"
            )
    for name, text in texts.items():
        file = folder / name
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
        except (OSError, ValueError) as error:
            raise _unreadable(file.parent, error, "make") from None
        _atomic.write_bytes(file, text.encode(errors="replace"))


def _files(folder: pathlib.Path) -> list[tuple[str, pathlib.Path]]:
    """Entry name and path of every regular file, at most one folder down."""
    try:
        root = folder.resolve(strict=True)
        found = []
        for entry in _listed(folder):
            if entry.is_dir():
                _refuse_outside(entry, root)
                found += [(f"{entry.name}/{inner.name}", inner) for inner in _listed(entry)]
            else:
                found.append((entry.name, entry))
        regular = [(name, file) for name, file in found if file.is_file()]
        for _, file in regular:
            _refuse_outside(file, root)
    except (OSError, ValueError, RuntimeError) as error:  # RuntimeError: a loop of symlinks; ValueError: a NUL byte
        raise _unreadable(folder, error, "read") from None
    if len(regular) > MAX_FILES:
        raise errors.InputError(f"{folder} holds more than {MAX_FILES} files")
    return regular


def _listed(folder: pathlib.Path) -> list[pathlib.Path]:
    return sorted(entry for entry in folder.iterdir() if not entry.name.startswith("."))


def _refuse_outside(file: pathlib.Path, root: pathlib.Path) -> None:
    if file.is_symlink() and not file.resolve(strict=True).is_relative_to(root):
        raise errors.InputError(
            f"{file} is a symlink that leads out of the recording", hint=f"ls -l {shlex.quote(str(file))}"
        )


def _read_bytes(file: pathlib.Path, limit: int) -> bytes:
    try:
        with file.open("rb") as stream:
            data = stream.read(limit + 1)
    except (OSError, ValueError) as error:
        raise _unreadable(file, error, "read") from None
    if len(data) > limit:
        bounds = f"{MAX_FILE_BYTES >> 20} MiB in a file and {MAX_TOTAL_BYTES >> 20} MiB in all"
        raise errors.InputError(f"{file} is too large: a recording holds at most {bounds}")
    return data


def _unreadable(file: pathlib.Path, error: Exception, verb: str) -> errors.InputError:
    reason = getattr(error, "strerror", None) or str(error)
    return errors.InputError(f"cannot {verb} {file}: {reason}", hint=f"ls -ld {shlex.quote(str(file))}")
