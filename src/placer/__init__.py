"""placer: where a GPU job should run, and why."""

__version__ = "0.1.0"
