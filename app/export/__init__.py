"""What a person exports of a record: one page that works without a network, and the arrays."""

from app.export.page import show

__all__ = ["show"]
