"""The page "Literature": published claims about heads, tested on the networks shown here."""
