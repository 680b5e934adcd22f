"""The page Train one here: its settings, its sentences and the live pictures."""
