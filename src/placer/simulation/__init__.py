"""Replays of recorded demand against placement policies: the published ones as published, and placer's own."""
