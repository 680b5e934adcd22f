"""The page on masks, one file per group of sections."""
