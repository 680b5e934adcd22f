"""Largest numbers of tokens, maps and weights that a record may hold."""

MAX_RECORD_TOKENS = 512
"""Maximum number of tokens per side that can be drawn, sent and loaded."""
MAX_RECORD_MAPS = 4_096
"""Limit for the sum of layers × heads over the three kinds: the most that core.config allows."""
MAX_RECORD_WEIGHTS = 1 << 24
"""Limit for the sum of layers × heads × queries × keys over the three kinds: 64 MB."""
