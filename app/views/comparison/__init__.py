"""The page "Scratch and baseline", one file per section."""
