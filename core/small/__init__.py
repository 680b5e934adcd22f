"""Train a small network step by step, with or without a mistake, and watch its heads."""
