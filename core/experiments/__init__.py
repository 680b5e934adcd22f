"""Experiments that run a model, one per file: interventions, attribution, activations."""
