"""The page that answers why, one file a question."""
