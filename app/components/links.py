"""The link to another page that a component reports when the visitor opens it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl


@dataclass(frozen=True)
class Link:
    """A page that the visitor has just opened: its URL path ("" is the first page) and query."""

    page: str
    query: dict[str, str]


def opened_link(reported: Mapping[str, str] | None) -> Link | None:
    """Return the link of a component's state, {page, query}, or None if none was opened."""
    if not reported:
        return None
    return Link(reported["page"], dict(parse_qsl(reported["query"], keep_blank_values=True)))
