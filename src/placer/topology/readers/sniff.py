"""Which tool wrote this text? Recognise it and call its reader."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

import msgspec

from placer.topology import types as topo
from placer.topology.readers import (
    _text,
    _xml,
    amd_smi,
    hwloc_xml,
    merge_trust,
    nccl_xml,
    nvidia_smi,
    nvidia_xml,
    p2p,
    rocm_smi,
    sysfs,
)

Reader = Callable[..., topo.NodeTopology]

_BY_ROOT: Final[dict[str, Reader]] = {
    "topology": hwloc_xml.read,
    "system": nccl_xml.read,
    "graphs": nccl_xml.read,
    "nvidia_smi_log": nvidia_xml.read,
}
"""Readers by the name of an XML document's first element."""

_TOOLS: Final[dict[Reader, merge_trust.Tool]] = {
    hwloc_xml.read: merge_trust.Tool.HWLOC,
    nccl_xml.read: merge_trust.Tool.NCCL,
    nvidia_xml.read: merge_trust.Tool.NVIDIA_XML,
    sysfs.read_listing: merge_trust.Tool.SYSFS,
    amd_smi.read: merge_trust.Tool.AMD,
    rocm_smi.read: merge_trust.Tool.AMD,
    p2p.read: merge_trust.Tool.MATRIX,
    nvidia_smi.read_matrix: merge_trust.Tool.MATRIX,
}

# What people hand over by mistake; read by other means or not at all, but worth a better word than "no matrix".
_KNOWN_OTHERS: Final[tuple[tuple[re.Pattern[str], str], ...]] = (
    (re.compile(r"\s*<(?:!DOCTYPE html|html)\b", re.IGNORECASE), "a web page"),
    (re.compile(r"[^\n]*\n\+-{20,}[^\n]*\n\| NVIDIA-SMI "), "the overview of `nvidia-smi`"),
    (
        re.compile(r"\s*(?:#[^\n]{0,400}\n\s*){0,50}(?:SwitchName|BlockName)=", re.IGNORECASE),
        "a fabric of switches (see `placer topo fabric`)",
    ),
)


def read(text: str, *, source: str, name: str) -> topo.NodeTopology:
    """The topology of one node from any text that placer reads, with the `tool` that wrote it.

    Raises ParseError, and nothing else.
    """
    reader = _reader(text, source)
    return msgspec.structs.replace(reader(text, source=source, name=name), tool=_TOOLS[reader].value)


def _reader(text: str, source: str) -> Reader:
    root = _xml.root_tag(text)
    if root in _BY_ROOT:
        return _BY_ROOT[root]
    for recognises, reader in (
        (sysfs.recognises, sysfs.read_listing),
        (amd_smi.recognises, amd_smi.read),
        (rocm_smi.recognises, rocm_smi.read),
        (p2p.recognises, p2p.read),
    ):
        if recognises(text):
            return reader
    for pattern, what in _KNOWN_OTHERS:
        if pattern.match(text[:10_000]):
            message = f"this is {what}, not a node's topology"
            raise _text.not_a_topology(_text.lines(text[:10_000]), message, source=source, hint=nvidia_smi.HINT)
    if root is not None:
        message = f"this is XML of another kind (`{root}`), none that placer reads"
        raise _text.not_a_topology(_text.lines(text[:10_000]), message, source=source, hint=nvidia_smi.HINT)
    return nvidia_smi.read_matrix
