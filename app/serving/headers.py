"""The headers of every answer: what a page may load and run, and who may frame it."""

from __future__ import annotations

import re
from base64 import b64encode
from hashlib import sha256
from pathlib import Path

import streamlit as st

FRAME_ANCESTORS = "HEADLIGHT_FRAME_ANCESTORS"
"""The environment variable that names the sites whose pages may frame the app."""
_LABEL = r"[a-z0-9]([a-z0-9-]*[a-z0-9])?"
# A star must leave two labels at least, so that it cannot mean everybody under "org".
_SITE = re.compile(
    rf"https://((\*\.)?{_LABEL}(\.{_LABEL})+)(:\d{{1,5}})?"
    r"|http://(localhost|127\.0\.0\.1)(:\d{1,5})?"
)
MOST_SITES = 20


def frame_ancestors(text: str | None) -> tuple[str, ...]:
    """The sites that a text names, separated by spaces: none if it is empty or None.

    A site is an origin such as `https://moodle.example.org`, or `self`; a star may take the place
    of its first label. Raises ValueError with one line.
    """
    sites = []
    for word in (text or "").lower().split():
        if word == "self":
            sites.append("'self'")
        elif _SITE.fullmatch(word):
            sites.append(word)
        else:
            raise ValueError(
                f"{FRAME_ANCESTORS}: {word[:80]!r} is not a site: write its origin, such as "
                "https://moodle.example.org, without a path"
            )
    if len(sites) > MOST_SITES:
        raise ValueError(f"{FRAME_ANCESTORS}: {len(sites)} sites, the limit is {MOST_SITES}")
    return tuple(sites)


def inline_scripts() -> str:
    """The hashes of the scripts in Streamlit's own page: no other inline script may run."""
    page = Path(st.__file__).with_name("static") / "index.html"
    texts = re.findall(r"<script>(.*?)</script>", page.read_text(encoding="utf-8"), re.DOTALL)
    hashes = (b64encode(sha256(text.encode()).digest()).decode() for text in texts)
    return " ".join(f"'sha256-{digest}'" for digest in hashes)


def headers(ancestors: tuple[str, ...] = ()) -> dict[str, str]:
    """The headers of every answer; only pages of `ancestors` may frame the app.

    A component's script reaches the browser as text that is imported from a blob; its style and
    Streamlit's own are inline. Nothing is fetched from elsewhere, and nothing is sent there.
    """
    framing = " ".join(ancestors) or "'none'"
    policy = [
        "default-src 'self'",
        f"script-src 'self' blob: {inline_scripts()}",
        "style-src 'self' 'unsafe-inline'",
        "img-src 'self' data: blob:",
        "font-src 'self' data:",
        "media-src 'self' blob:",
        "worker-src 'self' blob:",
        "object-src 'none'",
        "base-uri 'none'",
        "form-action 'none'",
        f"frame-ancestors {framing}",
    ]
    found = {
        "Content-Security-Policy": "; ".join(policy),
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",  # a page's address holds the sentence
    }
    if not ancestors:  # the older header knows no list of sites
        found["X-Frame-Options"] = "DENY"
    return found
