"""Questions that run a network, one a file: what if, what is it worth, what was it fed."""
