"""What is free, what runs, what waits. Pure: no I/O."""
