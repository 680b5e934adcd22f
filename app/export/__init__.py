"""Export a record as a page or as tables, and the app as one file or a site."""

from app.export.page import show

__all__ = ["show"]
