"""What `core.benchmark` measures, one benchmark a file, and the alternatives that take part."""
