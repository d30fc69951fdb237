"""Snapshots, recordings and topology files on disk."""
