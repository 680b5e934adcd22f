"""The lesson on tokens: its page."""
