"""`nvidia-smi -q -x`: what each GPU is and in what state; nothing about what lies between GPUs.

Drivers add, rename and move elements from release to release, and write `N/A`, `[Unknown Error]` or a sentence where
they have no value: each value is looked for where any release writes it, and all that is no value stays unknown.

A GPU is `healthy` = False when it must not be used: uncorrected memory errors since the last reset, a row remapping
that failed, memory that cannot be repaired, the error threshold of its SRAM passed, or the driver asks for a reset or
reboot. What waits for a reset, and a PCIe link below what it can be, are warnings. None = the log tells nothing of it.
"""

from __future__ import annotations

import re
from typing import Final

from placer.topology import types as topo
from placer.topology.readers import _pcie, _text, _xml

HINT: Final = "save it with `nvidia-smi -q -x > node.xml` and give that file"

_SKIPPED: Final = frozenset(
    {"supported_clocks", "processes", "accounted_processes", "clocks", "power_readings", "gpu_power_readings"}
)
_UUID = re.compile(r"GPU-[0-9A-Fa-f-]{8,40}")
_FABRIC_UUID = re.compile(r"[0-9A-Fa-f-]{32,40}")
_NO_FABRIC = re.compile(r"[0-]*")
_FINE: Final = ("none", "no")
_NO_VALUE: Final = (
    "",
    "n/a",
    "[n/a]",
    "requested functionality has been deprecated",
    "[unknown error]",
    "unknown error",
)

_UNCORRECTED: Final = (
    "sram_uncorrectable",
    "sram_uncorrectable_parity",
    "sram_uncorrectable_secded",
    "dram_uncorrectable",
)
_BROKEN: Final = (
    (("remapped_rows", "remapped_row_failure"), "a memory row could not be remapped"),
    (("ecc_errors", "unrepairable_memory"), "memory that cannot be repaired"),
    (("ecc_errors", "aggregate", "sram_threshold_exceeded"), "too many errors of its SRAM"),
    (("gpu_reset_status", "reset_required"), "the driver asks for a reset"),
)
_WAITING: Final = (
    (("retired_pages", "pending_retirement"), "memory pages are to be retired at the next reset"),
    (("retired_pages", "pending_blacklist"), "memory pages are to be retired at the next reset"),
    (("remapped_rows", "remapped_row_pending"), "memory rows are to be remapped at the next reset"),
    (("ecc_errors", "channel_repair_pending"), "a memory channel is to be repaired at the next reset"),
    (("ecc_errors", "tpc_repair_pending"), "a part of the GPU is to be repaired at the next reset"),
    (("gpu_reset_status", "drain_and_reset_recommended"), "the driver recommends to drain it and reset it"),
)


def read(text: str, *, source: str, name: str) -> topo.NodeTopology:
    """GPUs with identity, PCIe state, memory, health, MIG and NVLink clique; `partial`, since no link is told.

    GPUs are numbered in the order of the log when it lists all that are attached; a log of some (`-i`) does not tell
    their numbers, and they are named by address. Raises ParseError.
    """
    document = _xml.parse(text, source=source, hint=HINT, skip=_SKIPPED)
    root = document.root
    if root.tag != "nvidia_smi_log":
        raise document.error("not a log of nvidia-smi: the first element is not `nvidia_smi_log`", root)
    notes = _text.Notes()
    listed = list(root.every("gpu"))
    if not listed:
        raise document.error("no GPU is listed", root)
    attached = _number(root.told("attached_gpus"))
    whole = attached is None or attached == len(listed)
    if not whole:
        notes.add(f"{len(listed)} of {attached} GPUs are listed: their numbers are not told")
    gpus: dict[str, topo.Gpu] = {}
    for position, element in enumerate(listed[: _text.MAX_DEVICES]):
        gpu = _gpu(element, position if whole else None, position, notes)
        if gpu.id in gpus:
            raise document.error(f"two GPUs called {gpu.id}", element)
        gpus[gpu.id] = gpu
    return topo.NodeTopology(name=name, source=source, gpus=tuple(gpus.values()), partial=True, warnings=notes.texts())


def _gpu(element: _xml.Element, index: int | None, position: int, notes: _text.Notes) -> topo.Gpu:
    address = _pcie.bus_id(element.told("pci", "pci_bus_id")) or _pcie.bus_id(element.attributes.get("id"))
    called = f"GPU{index}" if index is not None else address or f"GPU-at-{position}"
    uuid, model = element.told("uuid"), _value(element.told("product_name"))
    link, widths = ("pci", "pci_gpu_link_info", "pcie_gen"), ("pci", "pci_gpu_link_info", "link_widths")
    gpu = topo.Gpu(
        id=called,
        index=index,
        bus_id=address,
        uuid=uuid if _UUID.fullmatch(uuid) else None,
        model=model if model and model.isprintable() and "err" not in model.lower().split() else None,
        memory_mib=_mebibytes(element.told("fb_memory_usage", "total")),
        healthy=_health(element, called, notes),
        minor=_number(element.told("minor_number")),
        module=_first_number(element, ("gpu_module_id",), ("platformInfo", "module_id"), ("module_id",)),
        pcie_gen=_generation(element.told(*link, "current_link_gen")),
        pcie_gen_max=_generation(element.told(*link, "max_link_gen")),
        pcie_width=_pcie.width(element.told(*widths, "current_link_width")),
        pcie_width_max=_pcie.width(element.told(*widths, "max_link_width")),
        clique=_clique(element, called, notes),
        mig=_value(element.told("mig_mode", "current_mig")),
        mig_devices=_mig_devices(element),
    )
    _note_link(gpu, element, notes)
    _note_mig(element, called, notes)
    return gpu


# --- values ---------------------------------------------------------------------------------------------------------


def _value(text: str) -> str | None:
    return None if text.casefold() in _NO_VALUE or len(text) > 100 else text


def _number(text: str) -> int | None:
    return int(text) if re.fullmatch(r"\d{1,9}", text) else None


def _first_number(element: _xml.Element, *paths: tuple[str, ...]) -> int | None:
    found = (_number(element.told(*path)) for path in paths)
    return next((number for number in found if number is not None), None)


def _generation(text: str) -> int | None:
    found = _number(text)
    return found if found and found < 10 else None


def _mebibytes(text: str) -> int | None:
    match = re.fullmatch(r"([1-9]\d{0,8}) MiB", text)
    return int(match[1]) if match else None


# --- states ---------------------------------------------------------------------------------------------------------


def _health(gpu: _xml.Element, called: str, notes: _text.Notes) -> bool | None:
    """See the module."""
    told = False
    healthy = True
    for path, what in (*_BROKEN, *_WAITING):
        state = _value(gpu.told(*path))
        told = told or state is not None
        if state is not None and state.casefold() not in _FINE:
            notes.add(f"{called}: {what}")
            healthy = healthy and (path, what) not in _BROKEN
    count = _uncorrected(gpu)
    if count:
        notes.add(f"{called}: {count} uncorrected memory errors since the last reset")
    action = _value(gpu.told("gpu_recovery_action"))
    wanted = action is not None and action.casefold() not in _FINE
    if wanted:
        notes.add(f"{called}: the driver asks for this action: {action}")
    if not told and count is None and action is None:
        return None
    return healthy and not count and not wanted


def _uncorrected(gpu: _xml.Element) -> int | None:
    volatile = gpu.find("ecc_errors", "volatile")
    if volatile is None:
        return None
    counts = [_number(volatile.told(tag)) for tag in _UNCORRECTED]
    counts.append(_number(volatile.told("double_bit", "total")))
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def _clique(gpu: _xml.Element, called: str, notes: _text.Notes) -> str | None:
    """`<cluster UUID>.<clique>`, as GPU feature discovery writes it; an NVLink domain of one node has no UUID."""
    fabric = gpu.find("fabric")
    if fabric is None:
        return None
    state, status = _value(fabric.told("state")), _value(fabric.told("status"))
    if state is not None and state.casefold() not in ("completed", "not supported"):
        notes.add(f"{called}: its NVLink fabric is not ready (state {state})")
    elif status is not None and status.casefold() != "success":
        notes.add(f"{called}: its NVLink fabric failed (status {status})")
    health = fabric.find("health")
    for fault in health.children if health else ():
        if fault.text.casefold() in ("true", "degraded", "yes", "unhealthy"):
            notes.add(f"{called}: the health of its NVLink fabric tells {fault.tag} = {fault.text}")
    cluster, clique = fabric.told("clusterUuid"), _number(fabric.told("cliqueId"))
    if clique is None or not _FABRIC_UUID.fullmatch(cluster) or _NO_FABRIC.fullmatch(cluster):
        return None
    return f"{cluster.lower()}.{clique}"


def _mig_devices(gpu: _xml.Element) -> tuple[str, ...]:
    """Each instance in words: its ids, processors and memory. The log tells neither its UUID nor its profile."""
    devices = gpu.find("mig_devices")
    found = []
    for device in list(devices.every("mig_device"))[:64] if devices else ():
        instance, compute = _number(device.told("gpu_instance_id")), _number(device.told("compute_instance_id"))
        words = [f"instance {instance if instance is not None else '?'}"]
        if compute is not None:
            words[0] += f"/{compute}"
        processors = _number(device.told("device_attributes", "shared", "multiprocessor_count"))
        memory = _mebibytes(device.told("fb_memory_usage", "total"))
        words += [f"{processors} multiprocessors"] if processors else []
        words += [f"{memory} MiB"] if memory else []
        found.append(", ".join(words))
    return tuple(found)


def _note_mig(gpu: _xml.Element, called: str, notes: _text.Notes) -> None:
    current, pending = _value(gpu.told("mig_mode", "current_mig")), _value(gpu.told("mig_mode", "pending_mig"))
    if current and pending and current != pending:
        notes.add(f"{called}: MIG will be {pending} after the next reset, now it is {current}")


def _note_link(gpu: topo.Gpu, element: _xml.Element, notes: _text.Notes) -> None:
    """A narrow link is always a fault; a slow one is only when the GPU is at full clocks, for it saves power idle."""
    if gpu.pcie_width and gpu.pcie_width_max and gpu.pcie_width < gpu.pcie_width_max:
        notes.add(f"{gpu.id}: its PCIe link runs with {gpu.pcie_width} of {gpu.pcie_width_max} lanes")
    busy = element.told("performance_state") == "P0"
    if busy and gpu.pcie_gen and gpu.pcie_gen_max and gpu.pcie_gen < gpu.pcie_gen_max:
        notes.add(f"{gpu.id}: its PCIe link runs at generation {gpu.pcie_gen} of {gpu.pcie_gen_max}")
    device = _generation(element.told("pci", "pci_gpu_link_info", "pcie_gen", "max_device_link_gen"))
    if device and gpu.pcie_gen_max and gpu.pcie_gen_max < device:
        notes.add(f"{gpu.id}: its slot allows PCIe generation {gpu.pcie_gen_max}, the GPU could run {device}")
