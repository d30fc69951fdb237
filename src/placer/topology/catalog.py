"""Known machine types, for nodes that give only a product name, an instance type, or the type and number of their GPUs.

Whatever comes from here is marked: `machine` names the type and `assumed` says "wiring from the catalogue". What is not
published about a machine is unknown in its topology. Order within a machine is that of the driver's index.
"""

from __future__ import annotations

import functools
import re
from typing import Final

from placer.topology import catalog_build as build
from placer.topology import catalog_cloud, catalog_dgx, catalog_other
from placer.topology import types as topo

_MACHINES: Final = (*catalog_dgx.MACHINES, *catalog_other.MACHINES, *catalog_cloud.MACHINES)

# GPU products that are built into one kind of board only, by `normal` name (as NVML, gres types and node labels write
# it) and number of GPUs. A name that also stands for PCIe cards (`a100`, `h100`, `v100`, `h200`) is not among them.
_BOARDS: Final = tuple(
    (re.compile(pattern), count, name)
    for pattern, count, name in (
        (r"(?:tesla-)?v100-sxm2(?:-.*)?", 8, "hgx-1"),
        (r"(?:tesla-)?v100-sxm3(?:-.*)?", 16, "hgx-2"),
        (r"a100-sxm4?(?:-.*)?", 8, "hgx-a100-8"),
        (r"a100-sxm4?(?:-.*)?", 4, "hgx-a100-4"),
        (r"h100-(?:sxm5?(?:-.*)?|80gb-hbm3)", 8, "hgx-h100"),
        (r"h100-(?:sxm5?(?:-.*)?|80gb-hbm3)", 4, "hgx-h100-4"),
        (r"h200-(?:sxm(?:-.*)?|141gb-hbm3e?)", 8, "hgx-h200"),
        (r"b200(?:-.*)?", 8, "hgx-b200"),
        (r"b300(?:-.*)?", 8, "hgx-b300"),
        (r"gb200(?:-.*)?", 4, "gb200"),
        (r"gh200(?:-.*)?", 1, "gh200"),
        (r"a10g", 8, "g5.48xlarge"),
        (r"(?:amd-)?(?:instinct-)?mi250x(?:-.*)?", 8, "ex235a"),
        (r"(?:amd-)?(?:instinct-)?mi300x(?:-.*)?", 8, "mi300x-8"),
        (r"(?:amd-)?(?:instinct-)?mi325x(?:-.*)?", 8, "mi325x-8"),
        (r"(?:amd-)?(?:instinct-)?mi355x(?:-.*)?", 8, "mi355x-8"),
    )
)
# NVIDIA calls the SXM form of an H200 by this name and the PCIe form "NVIDIA H200 NVL".
_FULL_NAMES: Final = {("nvidia-h200", 8): "hgx-h200"}
_PART: Final = re.compile(r"(?:^|-)(?:mig|\d+g-\d+gb|vgpu|pcie|nvl|shared)(?:-|$)")
_MAX_NAME: Final = 200


def names() -> tuple[str, ...]:
    """Every machine's own name, in the order of the catalogue."""
    return tuple(machine.name for machine in _MACHINES)


def find(product: str, gpus: int) -> topo.NodeTopology | None:
    """The machine of a product name, instance type or GPU type that has this many GPUs; 0 = the number is not told.

    Upper case, blanks and underscores make no difference, and what a vendor adds behind the name is left aside
    (`DGXA100 920-23687-2530-000`). None where the catalogue does not know it, or the words fit several machines.
    """
    word = normal(product)
    if not word:
        return None
    called = [machine for machine in _MACHINES if _is_called(machine, word)]
    # An exact name precedes those that merely begin so, but `hgx-h100` with 4 GPUs is the board of that size.
    for group in ([machine for machine in called if word == normal(machine.name)], called):
        fitting = [made for machine in group if len((made := _built(machine)).gpus) == gpus or not gpus]
        if len(fitting) == 1:
            return fitting[0]
    return None if called else for_types(product, gpus)


def for_types(gpu_type: str, gpus: int) -> topo.NodeTopology | None:
    """The board of a node with this many GPUs of one type; None unless that type is built in one way only.

    Gres types, NVML names and the label `nvidia.com/gpu.product` are understood. Slices of a GPU (MIG) have no board.
    """
    whole = re.sub(r"[^a-z0-9]+", "-", gpu_type[:_MAX_NAME].casefold()).strip("-")
    word = whole.removeprefix("nvidia-")
    if _PART.search(word):
        return None
    name = _FULL_NAMES.get((whole, gpus)) or next(
        (name for pattern, count, name in _BOARDS if count == gpus and pattern.fullmatch(word)), None
    )
    return _built(next(machine for machine in _MACHINES if machine.name == name)) if name is not None else None


def normal(product: str) -> str:
    """A product name in the form that aliases are written in: `NVIDIA DGX A100` -> `dgx-a100`."""
    word = re.sub(r"[^a-z0-9]+", "-", product[:_MAX_NAME].casefold()).strip("-")
    return word.removeprefix("nvidia-")


def _is_called(machine: build.Machine, word: str) -> bool:
    return any(word == alias or word.startswith(f"{alias}-") for alias in (normal(machine.name), *machine.aliases))


@functools.cache
def _built(machine: build.Machine) -> topo.NodeTopology:
    return machine.build()
