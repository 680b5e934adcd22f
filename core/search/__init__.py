"""Search for a translation: greedy and beam, the same as a tree, and many sentences at once."""
