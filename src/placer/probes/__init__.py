"""What this host can tell about itself."""
