"""Fault injection: plant one-line faults in a copy of the project and see which go unnoticed."""
