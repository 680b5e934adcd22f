"""What `core.benchmark` measures, one file per benchmark, and the alternatives that take part."""
