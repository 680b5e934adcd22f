"""Parallel text: corpora, padded batches and data augmentation."""
