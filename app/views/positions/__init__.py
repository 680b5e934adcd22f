"""The page on positions, one file per group of sections."""
