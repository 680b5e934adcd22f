"""Training: recipes, loss, schedule and the resumable loop."""
