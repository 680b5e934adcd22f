"""The page "Literature": published claims about heads, tested on some of the networks here."""
