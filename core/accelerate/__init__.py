"""Compiled CPU kernels for forward passes, decoding and the training loss."""
