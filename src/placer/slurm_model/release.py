"""The releases whose choices were recorded, and which of them stands for another one."""

from __future__ import annotations

import enum
import re


class Release(enum.IntEnum):
    """A recorded release. Rules that differ say so: `release >= R24` is a rule of 24.11 and 26.05 alike."""

    R22 = 22
    R24 = 24
    R26 = 26


R22, R24, R26 = Release


def of(version: str) -> Release:
    """The recorded release that a version (`24.11`, `slurm 24.11.5`) is predicted by: the one before or equal to it.

    The order of GPUs by links changed in 24.05 (slurm.md 2.6), so that 24.05 counts as 24.11. What cannot be read is
    taken as the newest.
    """
    found = re.search(r"(\d{2})\.(\d{2})", version)
    if found is None:
        return R26
    number = int(found[1]) * 100 + int(found[2])
    return R26 if number >= 2605 else R24 if number >= 2405 else R22


def is_recorded(version: str) -> bool:
    """Whether choices of this very release were recorded and are all predicted."""
    found = re.search(r"(\d{2}\.\d{2})", version)
    return found is not None and found[1] in {"22.05", "24.11", "26.05"}
