"""The page "Ask why", one file per question."""
