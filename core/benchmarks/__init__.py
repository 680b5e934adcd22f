"""The benchmarks of `core.benchmark`, one per file, and the alternatives that they compare."""
