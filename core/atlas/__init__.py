"""The atlas: what attention heads do over a corpus, from statistics that add up over shards."""
