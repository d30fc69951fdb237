"""What is wired to what: nodes from the inside, fabrics between them. Pure: no I/O."""
