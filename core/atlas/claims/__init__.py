"""Published claims about attention heads, tested on networks: statistics, verdicts, their file."""
