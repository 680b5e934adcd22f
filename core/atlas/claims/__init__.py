"""Published claims about attention heads, tested on networks: statistics, verdicts and file."""
