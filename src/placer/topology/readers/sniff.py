"""Which tool wrote this text? Recognise it and call its reader."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from placer.topology import types as topo
from placer.topology.readers import _text, nvidia_smi, rocm_smi, sysfs

# What people hand over by mistake; read by other means or not at all, but worth a better word than "no matrix".
_KNOWN_OTHERS: Final[tuple[tuple[re.Pattern[str], str], ...]] = (
    (re.compile(r"\s*(?:<\?xml[^>]{0,200}>\s*)?(?:<!DOCTYPE topology|<topology\b)"), "hwloc XML"),
    (re.compile(r"\s*(?:<\?xml[^>]{0,200}>\s*)?<(?:system|graphs)\b"), "a topology file of NCCL"),
    (re.compile(r"\s*(?:<\?xml[^>]{0,200}>\s*)?(?:<!DOCTYPE nvidia_smi_log|<nvidia_smi_log\b)"), "`nvidia-smi -q -x`"),
    (re.compile(r"\s*<(?:!DOCTYPE html|html)\b", re.IGNORECASE), "a web page"),
    (re.compile(r"[^\n]*\n\+-{20,}[^\n]*\n\| NVIDIA-SMI "), "the overview of `nvidia-smi`"),
    (
        re.compile(r"\s*(?:#[^\n]{0,400}\n\s*){0,50}(?:SwitchName|BlockName)=", re.IGNORECASE),
        "a fabric of switches (see `placer topo fabric`)",
    ),
)


def read(text: str, *, source: str, name: str) -> topo.NodeTopology:
    """The topology of one node from any text that placer reads. Raises ParseError, and nothing else."""
    return _reader(text, source)(text, source=source, name=name)


def _reader(text: str, source: str) -> Callable[..., topo.NodeTopology]:
    if sysfs.recognises(text):
        return sysfs.read_listing
    if rocm_smi.recognises(text):
        return rocm_smi.read
    for pattern, what in _KNOWN_OTHERS:
        if pattern.match(text[:10_000]):
            message = f"this is {what}, not a node's topology matrix"
            raise _text.not_a_topology(_text.lines(text[:10_000]), message, source=source, hint=nvidia_smi.HINT)
    return nvidia_smi.read_matrix
