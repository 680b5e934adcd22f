"""Shared by several pages: choices, figures, explorers, the sentence of a lesson."""
