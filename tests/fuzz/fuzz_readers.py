"""Mutate saved outputs byte by byte and see that every reader gives a topology or a ParseError, and soon.

    python tests/fuzz/fuzz_readers.py --count 100000 --reader hwloc_xml

Without `--reader` each reader in turn. The same seed gives the same inputs. What fails is written below `--keep`, and
the exit status is 1.
"""

from __future__ import annotations

import argparse
import pathlib
import random
import re
import sys
import time
import traceback
from collections.abc import Callable, Iterator

from placer import errors
from placer.cluster import codec_topology
from placer.topology import types as topo
from placer.topology.readers import (
    amd_smi,
    hwloc_xml,
    nccl_xml,
    nvidia_query,
    nvidia_smi,
    nvidia_xml,
    p2p,
    rocm_smi,
    sniff,
    sysfs,
)

FIXTURES = pathlib.Path(__file__).parents[2] / "fixtures" / "topo"
LONGEST_SECONDS = 2.0

Reader = Callable[..., topo.NodeTopology]

READERS: dict[str, tuple[Reader, tuple[str, ...]]] = {
    "hwloc_xml": (hwloc_xml.read, ("tools/hwloc*.xml",)),
    "nccl_xml": (nccl_xml.read, ("tools/nccl*.xml",)),
    "nvidia_xml": (nvidia_xml.read, ("tools/nvidia-smi-q*.xml",)),
    "p2p": (p2p.read, ("tools/p2p*.txt",)),
    "amd_smi": (amd_smi.read, ("tools/amd-smi*",)),
    "sysfs": (sysfs.read_listing, ("tools/sysfs*.txt",)),
    "nvidia_smi": (nvidia_smi.read_matrix, ("*.txt",)),
    "rocm_smi": (rocm_smi.read, ("mi300x*.txt",)),
    "nvidia_query": (nvidia_query.read, ("tools/nvidia-smi-q*.xml", "*.txt")),
    "sniff": (sniff.read, ("*.txt", "tools/*")),
}

# Words that mean something to some reader, put where they do not belong.
WORDS = (
    b"<", b">", b"/>", b"&", b"&#0;", b"&lt;", b'"', b"<!--", b"]]>", b"<![CDATA[", b"<!DOCTYPE a [<!ENTITY b 'c'>]>",
    b"-1", b"0", b"65535", b"4294967296", b"1e9", b"0x", b"ffffffff", b",,,,", b"0-8191", b"99999999999999999999",
    b"\x00", b"\xff\xfe", b"\xc3", b"\x1b[2J", "\u202e".encode(), b"\r", b"\n", b"\t", b"N/A", b"GPU0", b"0000:3b:00.0",
    b"00000000:3B:00.0", b'count="99"', b'type="NUMANode"', b'os_index="0"', b"{", b"[", b"}", b"]", b"null",
)  # fmt: skip

VALUE = re.compile(rb'"([^"<>&\n]{0,200})"|(?<=>)([^<>&\n]{1,60})(?=</)')
VALUES = (
    b"", b"0", b"-1", b"1", b"8191", b"65536", b"99999999999999999999", b"0x0", b"0xf...f", b"0x00000003,,0x1", b"zz",
    b"GPU0", b"nvml0", b"mlx5_0", b"0000:00:00.0", b"fffffff:ff:ff.0", b"10000:e1:00.0", b"Yes", b"N/A", b"Machine",
    b"Core", b"PU", b"NUMANode", b"Bridge", b"PCIDev", b"OSDev", b"GPUMemory", b"NVSwitch",
    b"0302 [10de:1db8] [0:0] a1",
    b"0x030200", b"0x068000", b"0x060400", "\u202e".encode(), b"x" * 300, b"XGMI", b"SELF", b"OSDev:120", b"$(id)",
)  # fmt: skip


def mutate(data: bytes, dice: random.Random) -> bytes:
    """One to eight accidents; every second time such that XML and JSON stay well-formed and readers get far."""
    if dice.random() < 0.5:
        return gently(data, dice)
    for _ in range(dice.randint(1, 8)):
        size = len(data)
        at = dice.randint(0, size)
        span = at + (1 << dice.randint(0, 10))
        kind = dice.randint(0, 6)
        if kind == 0 and size:
            data = data[: at - 1] + bytes([dice.randint(0, 255)]) + data[at:]
        elif kind == 1:
            data = data[:at] + data[span:]
        elif kind == 2:
            data = data[:at] + dice.choice(WORDS) + data[at:]
        elif kind == 3:
            data = data[:at] + data[at:span] * dice.randint(2, 5) + data[span:]
        elif kind == 4:
            data = data[:at]
        elif kind == 5 and size:
            other = dice.randint(0, size)
            data = data[:at] + data[other : other + span - at] + data[at:]
        else:
            data = data[:at] + dice.choice(WORDS) + data[at + dice.randint(0, 8) :]
        data = data[: 1 << 20]
    return data


def gently(data: bytes, dice: random.Random) -> bytes:
    """Values that become others, and lines that go, come twice or change places when they are whole elements."""
    for _ in range(dice.randint(1, 12)):
        if dice.random() < 0.7:
            values = list(VALUE.finditer(data))
            if values:
                where, other = dice.choice(values), dice.choice(values)
                start, end = where.span(where.lastindex or 1)
                put = other[other.lastindex or 1] if dice.random() < 0.5 else dice.choice(VALUES)
                data = data[:start] + put + data[end:]
            continue
        lines = data.split(b"\n")
        whole = [i for i, line in enumerate(lines) if b"/>" in line or b"</" in line or b"<" not in line]
        if whole:
            at, other_at, kind = dice.choice(whole), dice.choice(whole), dice.randint(0, 2)
            if kind == 0:
                lines[at] = b"" if lines[at].lstrip()[:2] != b"</" else lines[at]
            elif kind == 1 and lines[at].lstrip()[:2] != b"</":
                lines.insert(other_at, lines[at])
            elif kind == 2 and b"</" not in lines[at] + lines[other_at]:
                lines[at], lines[other_at] = lines[other_at], lines[at]
            data = b"\n".join(lines)
    return data[: 1 << 20]


def check(reader: Reader, text: str) -> str | None:
    """What is wrong with a reader on a text; None when nothing is."""
    start = time.process_time()
    try:
        node = reader(text, source="mutant", name="n1")
        inconsistency = _inconsistency(node)
    except errors.ParseError as error:
        right = 1 <= error.line <= text.count("\n") + 1 and error.column >= 1 and str(error).isprintable()
        inconsistency = None if right else f"place {error.line}:{error.column} or words {error!s}"
    except Exception:  # noqa: BLE001 - whatever else it raises is what this program looks for
        return traceback.format_exc()
    spent = time.process_time() - start
    return f"took {spent:.1f} s" if spent > LONGEST_SECONDS else inconsistency


def _inconsistency(node: topo.NodeTopology) -> str | None:
    devices = [gpu.id for gpu in node.gpus] + [nic.id for nic in node.nics]
    pairs = [frozenset((link.a, link.b)) for link in node.links]
    if len(set(devices)) < len(devices):
        return "two devices of one name"
    if len(set(pairs)) < len(pairs) or not all(len(pair) == 2 and pair <= set(devices) for pair in pairs):
        return "a link twice, of a device to itself, or to none"
    if not all(text.isprintable() for text in node.warnings):
        return "a warning that must not be printed"
    if any(link.lanes < 1 for link in node.links if link.type is topo.LinkType.NVLINK):
        return "an NVLink without lanes"
    written = codec_topology.decode(codec_topology.encode(node), source=node.source)
    return None if written == node else "its document does not come back"


def texts(patterns: tuple[str, ...]) -> Iterator[bytes]:
    """The fixtures of a reader."""
    for pattern in patterns:
        yield from (path.read_bytes() for path in sorted(FIXTURES.glob(pattern)) if path.is_file())


def run(name: str, count: int, seed: int, keep: pathlib.Path) -> int:
    """Try one reader; returns how many inputs went wrong."""
    reader, patterns = READERS[name]
    saved = list(texts(patterns))
    dice = random.Random(f"{seed} {name}")
    wrong, start = 0, time.monotonic()
    for number in range(count):
        data = mutate(dice.choice(saved), dice)
        message = check(reader, data.decode("utf-8", errors="replace"))
        if message is not None:
            wrong += 1
            keep.mkdir(parents=True, exist_ok=True)
            (keep / f"{name}-{seed}-{number}").write_bytes(data)
            sys.stderr.write(f"{name}: input {number}: {message}\n")
    spent = time.monotonic() - start
    sys.stdout.write(f"{name}: {count} inputs of {len(saved)} texts, {wrong} wrong, {spent:.0f} s\n")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100_000, help="inputs for each reader")
    parser.add_argument("--reader", choices=sorted(READERS), action="append", help="only this one; may be repeated")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=pathlib.Path, default=pathlib.Path("fuzz-failures"), metavar="DIR")
    options = parser.parse_args()
    wanted = options.reader or sorted(READERS)
    return 1 if sum(run(name, options.count, options.seed, options.keep) for name in wanted) else 0


if __name__ == "__main__":
    sys.exit(main())
