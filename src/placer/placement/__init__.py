"""The searches: which nodes, which GPUs, which cores. Pure: no I/O. The only room that knows PuLP."""
