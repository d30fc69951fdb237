"""Values of sbatch's options as numbers, by the limits that sbatch itself sets; each raises ValueError in words.

What was accepted and refused was asked of sbatch 22.05 (`sbatch -v --test-only` prints the options as it read them).
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from placer import errors, units

MAX_COUNT: Final = 1 << 31
_COUNT = re.compile(r"(\d{1,10})([kKmM]?)\Z")
_MEMORY = re.compile(r"\d{1,12}(?:[KMGT]B?)?\Z", re.IGNORECASE)
_GRES_PREFIX = re.compile(r"(?:gres[:/])?gpu(?=[:=]|\Z)")
_SCALE: Final = {"": 1, "K": 1 << 10, "M": 1 << 20}


class GpuCount(msgspec.Struct, frozen=True):
    """A number of GPUs of one type, of several, or of any."""

    count: int
    type: str | None = None
    types: int = 1  # how many types were named; `type` is None when more than one


def count(text: str) -> int:
    """A count from 1 on: tasks, CPUs. sbatch takes no suffix here."""
    if not (text.isascii() and text.isdigit() and 0 < int(text[:11]) < MAX_COUNT):
        raise ValueError("not a number from 1 on")
    return int(text[:11])


def _scaled(text: str) -> int:
    match = _COUNT.match(text)
    value = int(match[1]) * _SCALE[match[2].upper()] if match else MAX_COUNT
    if value >= MAX_COUNT:
        raise ValueError("not a count like `4` or `1k`")
    return value


def node_range(text: str) -> tuple[int, int | None]:
    """`4` -> (4, None), `2-4` -> (2, 4), `-3` -> (1, 3), `1k` -> (1024, None)."""
    low, dash, high = text.partition("-")
    least = _scaled(low) if low or not dash else 1
    most = _scaled(high) if dash else None
    if most is not None and most < least:
        raise ValueError("the most nodes are fewer than the least")
    return least, None if most == least else most


def memory(text: str) -> int:
    """Memory in MiB; whole numbers with K, M, G or T, megabytes without, as sbatch has it."""
    if not _MEMORY.match(text):
        raise ValueError("not an amount of memory like `512M` or `100G`")
    return units.parse_memory(text)


def minutes_up(text: str) -> int | None:
    """A time limit in seconds, rounded up to whole minutes as sbatch does; 0 and UNLIMITED are None."""
    if not text.strip():
        raise ValueError("not a time like `30`, `2:00:00` or `1-12`")
    try:
        seconds = units.parse_duration(f"{text}0" if re.fullmatch(r"\d+-", text) else text)
    except errors.ParseError:
        raise ValueError("not a time like `30`, `2:00:00` or `1-12`") from None
    return -(-seconds // 60) * 60 if seconds else None


def switches(text: str) -> tuple[int, int | None]:
    """`1@10:00` -> (1, 600): leaf switches at most, and seconds to wait for them; None = not said, or no time at all,
    which sbatch lets pass.
    """
    number, _, wait = text.partition("@")
    most = count(number)
    try:
        return most, minutes_up(wait) if wait else None
    except ValueError:
        return most, None


def gpus(text: str) -> GpuCount | None:
    """`4`, `a100:8`, `a100:2,v100:1`, each with or without `gpu:` before it; None when it asks for no GPU."""
    entries = [_gpu_entry(entry) for entry in text.split(",") if entry]
    total = sum(number for _, number in entries)
    if not total:
        return None
    types = {kind for kind, number in entries if number}
    return GpuCount(total, next(iter(types)) if len(types) == 1 else None, len(types))


def _gpu_entry(entry: str) -> tuple[str | None, int]:
    match = _GRES_PREFIX.match(entry)
    rest = entry[match.end() :].lstrip(":=") if match else entry
    kind, separator, number = rest.rpartition("=") if "=" in rest else rest.rpartition(":")
    if not rest:
        return None, 1
    if not separator and not re.fullmatch(r"\d+[kKmM]?", rest):
        return _type_name(rest), 1
    return _type_name(kind) if kind else None, _scaled(number)


def _type_name(text: str) -> str:
    if not re.fullmatch(r"\w[\w.+-]*", text):
        raise ValueError("not GPUs like `4` or `a100:4`")
    return text


def gres(text: str) -> tuple[GpuCount | None, tuple[str, ...]]:
    """The GPUs of a gres list, and its entries that are no GPUs: `gpu:a100:2,shard:3` -> (2 of a100, ("shard:3",))."""
    entries = [entry for entry in text.split(",") if entry and entry.upper() != "NONE"]
    of_gpu = [entry for entry in entries if _GRES_PREFIX.match(entry)]
    return gpus(",".join(of_gpu)), tuple(entry for entry in entries if not _GRES_PREFIX.match(entry))


def tres_per_task(text: str) -> tuple[GpuCount | None, int | None, tuple[str, ...]]:
    """GPUs and CPUs of each task, and what else is named: `cpu=8,gres/gpu:a100=1` -> (1 of a100, 8, ())."""
    rest: list[str] = []
    cpus = None
    of_gpu: list[str] = []
    for entry in filter(None, text.split(",")):
        if _GRES_PREFIX.match(entry):
            of_gpu.append(entry)
        elif match := re.fullmatch(r"cpu[:=](\d{1,10})", entry):
            cpus = count(match[1])
        else:
            rest.append(entry)
    return gpus(",".join(of_gpu)), cpus, tuple(rest)


def exclusive(text: str | None) -> bool:
    """True when whole nodes are asked for; `user`, `mcs` and `topo` share nodes or are about other jobs."""
    if text in {"user", "mcs", "topo"}:
        return False
    if text not in {None, "", "exclusive"}:
        raise ValueError("not `exclusive`, `user`, `mcs` or `topo`")
    return True


def threads_of_hint(text: str) -> int | None:
    """Threads per core that `--hint` implies; None where it implies nothing."""
    if text in {"nomultithread", "compute_bound", "memory_bound"}:
        return 1
    if text not in {"multithread", "help"}:
        raise ValueError("not `compute_bound`, `memory_bound`, `multithread` or `nomultithread`")
    return None


def threads_of_node_info(text: str) -> int | None:
    """Threads per core of `-B sockets[:cores[:threads]]`; None when not a plain number."""
    return _part_of_node_info(text, 2)


def sockets_of_node_info(text: str) -> int | None:
    """Sockets per node of `-B sockets[:cores[:threads]]`; None when not a plain number."""
    return _part_of_node_info(text, 0)


def _part_of_node_info(text: str, place: int) -> int | None:
    part = text.split(":")[place : place + 1]
    return int(part[0]) if part and re.fullmatch(r"[1-9][0-9]{0,3}", part[0]) else None


def flag_in_environment(text: str) -> bool:
    """A variable that stands for an option without argument: on when empty, `yes` or a number that is not 0."""
    return text in {"", "yes"} or (text.isascii() and text.isdigit() and int(text[:18]) != 0)
