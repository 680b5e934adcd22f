"""Headlight's core: everything that is true without a screen."""
