"""Raw output of the tools that a snapshot is made from: what a live cluster printed, or a directory that kept it.

Entry names are those of the commands (`scontrol_show_node_d.txt`, `topo/gpu01.txt`), so that a kept directory and a
live cluster go through the same readers.
"""

from __future__ import annotations

import msgspec


class Recording(msgspec.Struct, frozen=True):
    """Named texts from one moment. `origin` is what error messages call it: a directory, or `live cluster`."""

    origin: str
    entries: tuple[tuple[str, str], ...] = ()
    taken: int | None = None  # seconds since 1970

    def text(self, name: str) -> str | None:
        """The text of an entry, or None when it was not recorded."""
        return next((text for key, text in self.entries if key == name), None)

    def under(self, folder: str) -> tuple[tuple[str, str], ...]:
        """Entries of a folder, names without it: `under("topo")` -> (("gpu01.txt", …), …)."""
        prefix = folder + "/"
        return tuple((key[len(prefix) :], text) for key, text in self.entries if key.startswith(prefix))

    def source(self, name: str) -> str:
        """What a ParseError calls an entry."""
        return f"{self.origin}/{name}"
