"""Real servers with emulated GPU nodes on this machine."""
