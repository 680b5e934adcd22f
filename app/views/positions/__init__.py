"""The parts of the lesson on positions: the table, its use, what if it were another, the split."""
