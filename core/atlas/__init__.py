"""What attention heads do over a corpus: statistics that add up over shards, and the atlas file."""
