"""Shared by figures and components: palette, token labels, number formats, escaped text."""
