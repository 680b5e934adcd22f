"""Mounts the list of pages: groups that open and close, with the current page marked."""

from __future__ import annotations

from app.components.mount import component
from app.views import GROUPS, VIEWS

__all__ = ["navigation"]

_mount = component(__file__, "main.js", ".navigation")


def navigation(here: str, *, key: str = "navigation") -> None:
    """Show all pages by group; the group of the page `here`, a URL path, is open.

    Streamlit's own list is hidden, because its groups cannot be closed by keyboard. This one
    presses its links: they keep the session, mark the history and close the sidebar on a phone.
    """
    pages = {
        name: [[one.path, one.title] for one in VIEWS.values() if one.group == name]
        for name in GROUPS
    }
    groups = [{"name": n, "line": line, "pages": pages[n]} for n, line in GROUPS.items()]
    _mount(key=key, data={"groups": groups, "here": here})
