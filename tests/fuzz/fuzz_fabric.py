"""Mutate texts of fabrics byte by byte and see that every reader gives a Fabric or a ParseError, and soon.

    python tests/fuzz/fuzz_fabric.py --count 100000 --reader conf

Without `--reader` each reader in turn. The same seed gives the same inputs. What fails is written below `--keep`, and
the exit status is 1.
"""

from __future__ import annotations

import argparse
import pathlib
import random
import sys
import time
import traceback
from collections.abc import Callable

from placer import errors
from placer.slurm import topology_conf, topology_yaml
from placer.topology import checks, fabric_checks
from placer.topology import types as topo
from placer.topology.fabrics import csv_table, ibnetdiscover, kubernetes, topograph

FIXTURES = pathlib.Path(__file__).parents[2] / "fixtures"
LONGEST_SECONDS = 2.0

Reader = Callable[..., topo.Fabric]
Switches = Callable[..., tuple[topo.Switch, ...]]


def _objects(text: str, *, source: str) -> topo.Fabric:
    return kubernetes.read([(text, source)])


READERS: dict[str, tuple[Reader, Switches | None, tuple[str, ...]]] = {
    "conf": (topology_conf.read, topology_conf.switches, ("fabric/*.conf", "topo/*.conf", "slurm/*/*topology*")),
    "yaml": (topology_yaml.read, topology_yaml.switches, ("fabric/two-islands.yaml",)),
    "topograph": (topograph.read, topograph.switches, ("fabric/model.yaml",)),
    "ib": (ibnetdiscover.read, ibnetdiscover.switches, ("fabric/*.ibnetdiscover",)),
    "csv": (csv_table.read, None, ("fabric/*.csv",)),
    "kubernetes": (_objects, kubernetes.switches, ("fabric/nodes.yaml", "fabric/hypernodes.yaml")),
}

# Words that mean something to some reader, put where they do not belong.
WORDS = (
    b"[1-99999999]", b"[", b"]", b"{", b"}", b",", b":", b"=", b"-", b"#", b'"', b"'", b"&a", b"*a", b"<<: *a",
    b"!!str", b"|", b">", b"?", b"%YAML 1.2", b"---", b"...", b"\x00", b"\xff\xfe", b"\xc3", b"\x1b[2J",
    "\u202e".encode(), b"\r", b"\n", b"\t", b"\\\n", b"null", b"~", b"-1", b"0", b"99999999999999999999", b"1e9",
    b"SwitchName=", b"Nodes=", b"Switches=", b"BlockName=", b"BlockSizes=3,5", b"switches:", b"nodes:", b"spec:",
    b"kind: HyperNode",
    b"Switch\t1 \"", b'"S-1"[1]', b"Ca\t1 \"H-1\"", b"4xNDR", b"host",
)  # fmt: skip


def mutate(data: bytes, dice: random.Random) -> bytes:
    """One to eight accidents: bytes changed, cut, doubled, moved; words of some reader put in."""
    for _ in range(dice.randint(1, 8)):
        at = dice.randint(0, len(data))
        span = at + (1 << dice.randint(0, 10))
        kind = dice.randint(0, 5)
        if kind == 0 and data:
            data = data[: at - 1] + bytes([dice.randint(0, 255)]) + data[at:]
        elif kind == 1:
            data = data[:at] + data[span:]
        elif kind == 2:
            data = data[:at] + data[at:span] * dice.randint(2, 5) + data[span:]
        elif kind == 3:
            other = dice.randint(0, len(data))
            data = data[:at] + data[other : other + span - at] + data[at:]
        else:
            data = data[:at] + dice.choice(WORDS) + data[at + dice.randint(0, 8) * (kind - 4) :]
        data = data[: 1 << 20]
    return data


def check(reader: Reader, switches: Switches | None, text: str) -> str | None:
    """What is wrong with a reader on a text; None when nothing is."""
    start = time.process_time()
    try:
        made = reader(text, source="mutant")
        if time.process_time() - start > LONGEST_SECONDS:
            return f"took {time.process_time() - start:.1f} s"
        wrong = _wrong_fabric(made)
    except errors.ParseError as error:
        right = 1 <= error.line <= text.count("\n") + 2 and error.column >= 1 and str(error).isprintable()
        wrong = None if right else f"place {error.line}:{error.column} or words {error!s}"
    except Exception:  # noqa: BLE001 - whatever else it raises is what this program looks for
        return traceback.format_exc()
    start = time.process_time()
    try:
        if switches is not None:
            fabric_checks.check(switches(text, source="mutant"))
    except errors.ParseError:
        pass
    except Exception:  # noqa: BLE001
        return traceback.format_exc()
    spent = time.process_time() - start
    return f"took {spent:.1f} s" if spent > LONGEST_SECONDS else wrong


def _wrong_fabric(fabric: topo.Fabric) -> str | None:
    """A fabric keeps what its type promises: `checks` finds no error in what a reader made."""
    broken = [f for f in checks.check_fabric(fabric, ()) if f.severity == checks.Severity.ERROR]
    if broken:
        return f"{broken[0].text}: {broken[0].where}"
    return None if all(text.isprintable() for text in fabric.warnings) else "a warning that must not be printed"


def run(name: str, count: int, seed: int, keep: pathlib.Path) -> int:
    """Try one reader; returns how many inputs went wrong."""
    reader, switches, patterns = READERS[name]
    saved = [path.read_bytes() for pattern in patterns for path in sorted(FIXTURES.glob(pattern))]
    dice = random.Random(f"{seed} {name}")
    wrong, start = 0, time.monotonic()
    for number in range(count):
        data = mutate(dice.choice(saved), dice)
        message = check(reader, switches, data.decode("utf-8", errors="replace"))
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
