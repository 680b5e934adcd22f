"""The folder in which a trained network is kept."""
