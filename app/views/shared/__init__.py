"""Shared by several pages: choices, figures, explorers, the inspected sentence."""
