"""Analyses of records, one per file: records in, NumPy arrays out; no network and no UI."""
