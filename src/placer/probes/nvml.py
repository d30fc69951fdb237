"""This host's GPUs as NVML knows them, through the Python package nvidia-ml-py; the only module that loads it.

NVML is asked in a process of its own (`python -m placer.probes.nvml` prints a NodeTopology as JSON), because a call
about a lost GPU may never return and a driver may end the process that loads it.
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import itertools
import os
import pathlib
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from placer import errors
from placer.probes import _run
from placer.topology import types as topo
from placer.topology.readers import merge_trust

SOURCE: Final = "NVML"
PACKAGE: Final = "nvidia-ml-py"

_MOST_LINKS: Final = 36
_SWITCH: Final = 2  # NVML_NVLINK_DEVICE_TYPE_SWITCH
_NODE_SCOPE: Final = 0  # NVML_AFFINITY_SCOPE_NODE
_READ: Final = 0  # NVML_P2P_CAPS_INDEX_READ
_PEER_OK: Final = 0
_UNKNOWN_PEER: Final = 6  # NVML_P2P_STATUS_UNKNOWN
_WORD_BITS: Final = 8 * ctypes.sizeof(ctypes.c_ulong)
_WORDS: Final = 8192 // _WORD_BITS
# nvmlGpuTopologyLevel_t
_ANCESTORS: Final = {
    10: topo.LinkType.PIX,
    20: topo.LinkType.PXB,
    30: topo.LinkType.PHB,
    40: topo.LinkType.NODE,
    50: topo.LinkType.SYS,
}


def available() -> bool:
    """Whether the package is installed; nothing is loaded."""
    return importlib.util.find_spec("pynvml") is not None


def probe(*, name: str, timeout_seconds: float) -> topo.NodeTopology:
    """The GPUs with their places and links, from a child process.

    Raises CommandMissingError without the package, CommandFailedError or CommandTimeoutError when NVML cannot be asked.
    """
    if not available():
        raise errors.CommandMissingError(
            f"the Python package {PACKAGE} is not installed", hint=f"pip install {PACKAGE}"
        )
    command = (sys.executable, "-m", "placer.probes.nvml")
    path = os.pathsep.join(entry or str(pathlib.Path.cwd()) for entry in sys.path)
    text = _run.run(command, timeout_seconds=timeout_seconds, environment={"PYTHONPATH": path})
    try:
        found = msgspec.json.decode(text.encode(), type=topo.NodeTopology)
    except msgspec.DecodeError:
        raise errors.CommandFailedError("what NVML told cannot be read", hint=" ".join(command)) from None
    return msgspec.structs.replace(found, name=name)


def main() -> int:
    """Print what NVML tells; exit status 1 and its words on stderr when it cannot be asked."""
    module: Any = importlib.import_module("pynvml")
    try:
        module.nvmlInit()
    except module.NVMLError as error:
        print(f"NVML: {error}", file=sys.stderr)  # noqa: T201 - the child's own channel
        return 1
    try:
        found = _Nvml(module).topology()
    finally:
        module.nvmlShutdown()
    sys.stdout.write(msgspec.json.encode(found).decode())
    return 0


class _Nvml:
    """Questions to NVML; what this driver, GPU or package does not know is None."""

    def __init__(self, module: Any) -> None:
        self._module = module

    def _ask(self, function: str, *arguments: object) -> Any:
        call: Callable[..., Any] | None = getattr(self._module, function, None)
        if call is None:
            return None
        try:
            answer = call(*arguments)
        except self._module.NVMLError:
            return None
        return answer.decode(errors="replace") if isinstance(answer, bytes) else answer

    def topology(self) -> topo.NodeTopology:
        """Every GPU that this process may see."""
        count = self._ask("nvmlDeviceGetCount") or 0
        handles = [(i, self._ask("nvmlDeviceGetHandleByIndex", i)) for i in range(min(count, 512))]
        seen = [(i, handle) for i, handle in handles if handle is not None]
        gpus = tuple(self._gpu(i, handle) for i, handle in seen)
        links, no_peer = self._pairs(gpus, [handle for _, handle in seen])
        lost = [f"GPU{i}" for i, handle in handles if handle is None]
        return topo.NodeTopology(
            name="",
            source=SOURCE,
            gpus=gpus,
            links=links,
            partial=len(links) < len(gpus) * (len(gpus) - 1) // 2,
            warnings=(f"NVML gives no access to {', '.join(lost)}",) if lost else (),
            no_peer=no_peer,
            tool=merge_trust.Tool.NVML.value,
        )

    def _gpu(self, index: int, handle: Any) -> topo.Gpu:
        memory = self._ask("nvmlDeviceGetMemoryInfo", handle)
        capability = self._ask("nvmlDeviceGetCudaComputeCapability", handle)
        mode = self._ask("nvmlDeviceGetMigMode", handle)
        return topo.Gpu(
            id=f"GPU{index}",
            index=index,
            bus_id=_address(self._ask("nvmlDeviceGetPciInfo", handle)),
            uuid=self._text("nvmlDeviceGetUUID", handle),
            model=self._text("nvmlDeviceGetName", handle),
            numa=self._set("nvmlDeviceGetMemoryAffinity", handle, _WORDS, _NODE_SCOPE),
            cpus=self._set("nvmlDeviceGetCpuAffinityWithinScope", handle, _WORDS, _NODE_SCOPE)
            or self._set("nvmlDeviceGetCpuAffinity", handle, _WORDS),
            memory_numa=self._number("nvmlDeviceGetNumaNodeId", handle),
            memory_mib=int(memory.total) >> 20 if memory is not None else None,
            minor=self._number("nvmlDeviceGetMinorNumber", handle),
            module=self._number("nvmlDeviceGetModuleId", handle),
            sm=10 * capability[0] + capability[1] if capability else None,
            pcie_gen=self._number("nvmlDeviceGetCurrPcieLinkGeneration", handle),
            pcie_gen_max=self._number("nvmlDeviceGetMaxPcieLinkGeneration", handle),
            pcie_width=self._number("nvmlDeviceGetCurrPcieLinkWidth", handle),
            pcie_width_max=self._number("nvmlDeviceGetMaxPcieLinkWidth", handle),
            mig=None if not mode else "Enabled" if mode[0] else "Disabled",
        )

    def _text(self, function: str, handle: Any) -> str | None:
        answer = self._ask(function, handle)
        return answer if isinstance(answer, str) and answer.isprintable() and answer else None

    def _number(self, function: str, handle: Any) -> int | None:
        answer = self._ask(function, handle)
        return int(answer) if isinstance(answer, int) and 0 <= answer < 1 << 20 else None

    def _set(self, function: str, handle: Any, *arguments: object) -> tuple[int, ...] | None:
        """A bit mask of CPUs or NUMA nodes, in words from the low one up."""
        words = self._ask(function, handle, *arguments)
        if words is None:
            return None
        numbers = [
            at * _WORD_BITS + bit for at, word in enumerate(words) for bit in range(_WORD_BITS) if int(word) >> bit & 1
        ]
        return tuple(numbers) or None

    def _pairs(
        self, gpus: Sequence[topo.Gpu], handles: Sequence[Any]
    ) -> tuple[tuple[topo.Link, ...], tuple[tuple[str, str], ...]]:
        """Links of every pair, and pairs whose GPUs cannot read each other's memory."""
        lanes = [self._lanes(handle) for handle in handles]
        links, denied = [], []
        for i, j in itertools.combinations(range(len(gpus)), 2):
            a, b = gpus[i], gpus[j]
            count = lanes[i].get(b.bus_id or "", 0) or min(lanes[i].get("", 0), lanes[j].get("", 0))
            level = self._ask("nvmlDeviceGetTopologyCommonAncestor", handles[i], handles[j])
            if count:
                links.append(topo.Link(a.id, b.id, topo.LinkType.NVLINK, count))
            elif level in _ANCESTORS:
                links.append(topo.Link(a.id, b.id, _ANCESTORS[level]))
            peer = self._ask("nvmlDeviceGetP2PStatus", handles[i], handles[j], _READ)
            if peer not in (None, _PEER_OK, _UNKNOWN_PEER):
                denied.append((a.id, b.id))
        return tuple(links), tuple(denied)

    def _lanes(self, handle: Any) -> dict[str, int]:
        """Active NVLinks of a GPU by the address of what is at the other end; the empty address is an NVSwitch."""
        found: dict[str, int] = {}
        for link in range(_MOST_LINKS):
            if not self._ask("nvmlDeviceGetNvLinkState", handle, link):
                continue
            if self._ask("nvmlDeviceGetNvLinkRemoteDeviceType", handle, link) == _SWITCH:
                far: str | None = ""
            else:
                far = _address(self._ask("nvmlDeviceGetNvLinkRemotePciInfo", handle, link))
            if far is not None:
                found[far] = found.get(far, 0) + 1
        return found


def _address(info: Any) -> str | None:
    """`00000000:3B:00.0` of NVML's PCI structure as `0000:3b:00.0`."""
    told = getattr(info, "busId", None)
    text = told.decode(errors="replace") if isinstance(told, bytes) else told
    if not isinstance(text, str) or text.count(":") != 2:
        return None
    domain, _, rest = text.strip().lower().partition(":")
    return f"{domain[-4:]:0>4}:{rest}" if not domain[:-4].strip("0") else text.lower()


if __name__ == "__main__":
    sys.exit(main())
