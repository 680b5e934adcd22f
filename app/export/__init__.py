"""What a person takes away of a record: one page that works without a network, and the arrays."""

from app.export.page import show

__all__ = ["show"]
