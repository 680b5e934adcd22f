"""Decoding: greedy and beam search, the search tree, and batches of many sentences."""
