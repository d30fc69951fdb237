"""From placements to words and numbers that a person acts on. Pure: no I/O."""
