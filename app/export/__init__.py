"""Export a record: as a standalone HTML page, or as tables."""

from app.export.page import show

__all__ = ["show"]
