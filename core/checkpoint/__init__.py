"""Checkpoint folders: writing, validating, loading."""
