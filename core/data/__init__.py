"""Parallel text: corpora by name or by file, pairs to padded batches, and what changes them."""
