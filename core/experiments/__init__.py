"""Questions that run a network: what a head is worth, and what it aligns."""
