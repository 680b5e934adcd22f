"""Analyses, one per file, that turn records into NumPy arrays without a network or the UI."""
