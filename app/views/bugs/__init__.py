"""The page Find the bug: a broken network beside the healthy one, and a question."""
