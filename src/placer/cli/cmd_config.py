"""`placer config show|path`: what is in force, and where it comes from."""

from __future__ import annotations

import click


@click.group(
    epilog="\b\nExamples:\n  placer config show\n  placer config path\n  PLACER_CONFIG=site.yaml placer config show"
)
def command() -> None:
    """Show the configuration and where it comes from.

    Files are applied in this order, the later wins key by key: /etc/placer/config.yaml, the user's
    ~/.config/placer/config.yaml, and the file that PLACER_CONFIG names.
    """


@command.command(epilog="\b\nExamples:\n  placer config show\n  placer config show -o yaml")
@click.option(
    "-o", "--output", type=click.Choice(["table", "json", "yaml"]), default="table", help="Form of the answer."
)
def show(output: str) -> None:
    """Every setting, its value and the file that set it."""
    from placer.cli import _document, _render
    from placer.files import config

    settings = config.settings()
    if output == "table":
        _render.table(("setting", "value", "from"), [(s.name, _shown(s.value), s.origin) for s in settings])
        return
    rows = [{"name": s.name, "value": s.value, "origin": s.origin} for s in settings]
    _document.emit("Config", {"settings": rows}, output)


@command.command(epilog="\b\nExample:\n  placer config path")
def path() -> None:
    """The files that are looked for, in the order they are applied."""
    import os

    from placer.cli import _render
    from placer.files import config

    for file in config.paths(os.environ):
        _render.say(f"{file}{'' if file.exists() else '  (not there)'}")


def _shown(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{k}={v}" for k, v in value.items()) or "-"
    return "-" if value is None else str(value)
