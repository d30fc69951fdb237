"""`-o json|yaml`: one document on stdout, keys in the order that the caller gives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from placer.cli import _render

API_VERSION = "placer/v1"


def emit(kind: str, body: Mapping[str, Any], output: str) -> None:
    """Print `{"apiVersion", "kind", **body}` as JSON or YAML. `body` holds plain builtins only."""
    document = {"apiVersion": API_VERSION, "kind": kind, **body}
    if output == "yaml":
        import yaml

        _render.say(yaml.dump(document, Dumper=yaml.CSafeDumper, sort_keys=False, allow_unicode=True).rstrip("\n"))
        return
    import msgspec

    _render.say(msgspec.json.format(msgspec.json.encode(document), indent=2).decode())
