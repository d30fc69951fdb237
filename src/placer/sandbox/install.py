"""The Slurm that is installed on this machine: its programs, its release, and how its daemons can trust each other."""

from __future__ import annotations

import pathlib
import re
import shutil
import subprocess
from typing import Final

import msgspec

from placer import errors

PACKAGES_HINT: Final = "sudo apt-get install slurm-wlm munge"
_CONTROL: Final = ("slurmctld", "slurmd", "scontrol", "sinfo")
_SBIN: Final = ("/usr/sbin", "/usr/local/sbin", "/sbin")
_PLUGIN_DIRS: Final = ("lib/*/slurm-wlm", "lib64/slurm", "lib/slurm", "lib/*/slurm")


class Installation(msgspec.Struct, frozen=True):
    """Absolute paths of the programs. `munged` is None when daemons run without authentication."""

    slurmctld: str
    slurmd: str
    scontrol: str
    sinfo: str
    munged: str | None
    release: tuple[int, int]  # (22, 5)
    version: str  # as printed
    unsigned_credentials: bool = False  # the release still has cred/none


def find() -> Installation:
    """What is installed. Raises SandboxError that names the missing programs and the packages that bring them."""
    programs = {name: find_program(name) for name in _CONTROL}
    missing = [name for name, path in programs.items() if path is None]
    if missing:
        raise errors.SandboxError(f"Slurm is not installed here: no {', '.join(missing)}", hint=PACKAGES_HINT)
    paths = {name: path for name, path in programs.items() if path is not None}
    version = _version(paths["slurmctld"])
    plugins = _plugins(paths["slurmctld"])
    munged = find_program("munged")
    if munged is None and "auth_none.so" not in plugins:
        raise errors.SandboxError(
            f"Slurm {version} needs MUNGE for its daemons to trust each other: no munged", hint=PACKAGES_HINT
        )
    return Installation(
        slurmctld=paths["slurmctld"],
        slurmd=paths["slurmd"],
        scontrol=paths["scontrol"],
        sinfo=paths["sinfo"],
        munged=munged,
        release=parse_release(version),
        version=version,
        unsigned_credentials="cred_none.so" in plugins,
    )


def find_program(name: str) -> str | None:
    """A program on PATH, or where administrators' programs lie although an ordinary user's PATH lacks it."""
    return shutil.which(name) or shutil.which(name, path=":".join(_SBIN))


def parse_release(version: str) -> tuple[int, int]:
    """`"slurm-wlm 22.05.8"` -> `(22, 5)`. Raises SandboxError."""
    match = re.search(r"\b(\d{1,3})\.(\d{1,3})", version)
    if match is None:
        raise errors.SandboxError(f"`slurmctld -V` says `{errors.printable(version)}`, which names no release")
    return int(match[1]), int(match[2])


def _version(slurmctld: str) -> str:
    try:
        answer = subprocess.run([slurmctld, "-V"], capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise errors.SandboxError(f"`{slurmctld} -V` does not answer: {error}") from None
    words = answer.stdout.split()
    return words[-1] if words else answer.stderr.strip()


def _plugins(slurmctld: str) -> frozenset[str]:
    """File names of the plugins; empty when their directory is not where packages and `make install` put it."""
    prefix = pathlib.Path(slurmctld).resolve().parent.parent
    return frozenset(
        plugin.name for pattern in _PLUGIN_DIRS for folder in prefix.glob(pattern) for plugin in folder.glob("*.so")
    )
