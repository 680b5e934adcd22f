"""Response headers: the Content-Security-Policy and which sites may frame the app."""

from __future__ import annotations

import re
from base64 import b64encode
from hashlib import sha256
from pathlib import Path

import streamlit as st

FRAME_ANCESTORS = "HEADLIGHT_FRAME_ANCESTORS"
"""The environment variable that lists the sites that may frame the app."""
_LABEL = r"[a-z0-9]([a-z0-9-]*[a-z0-9])?"
# At least two labels must follow a star, so that it cannot cover all of "org".
_SITE = re.compile(
    rf"https://((\*\.)?{_LABEL}(\.{_LABEL})+)(:\d{{1,5}})?"
    r"|http://(localhost|127\.0\.0\.1)(:\d{1,5})?"
)
MAX_SITES = 20


def frame_ancestors(text: str | None) -> tuple[str, ...]:
    """Parse a space-separated list of sites; empty or None means none.

    A site is `self`, an origin such as `https://moodle.example.org`, or an http origin on
    localhost. A star may replace the first label of an https origin. Raises ValueError with a
    one-line message.
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
    if len(sites) > MAX_SITES:
        raise ValueError(
            f"{FRAME_ANCESTORS}: {len(sites)} sites, the limit is {MAX_SITES}: remove some"
        )
    return tuple(sites)


def inline_scripts() -> str:
    """Return the CSP hashes of the inline scripts in Streamlit's page, the only ones allowed."""
    page = Path(st.__file__).with_name("static") / "index.html"
    texts = re.findall(r"<script>(.*?)</script>", page.read_text(encoding="utf-8"), re.DOTALL)
    hashes = (b64encode(sha256(text.encode()).digest()).decode() for text in texts)
    return " ".join(f"'sha256-{digest}'" for digest in hashes)


def headers(ancestors: tuple[str, ...] = ()) -> dict[str, str]:
    """Return the headers of every response; only `ancestors` may frame the app.

    `blob:` allows component scripts, which Streamlit imports from blobs; styles are inline. The
    policy blocks all requests to other hosts.
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
    result = {
        "Content-Security-Policy": "; ".join(policy),
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",  # the URL holds the sentence
    }
    if not ancestors:  # this older header cannot list sites
        result["X-Frame-Options"] = "DENY"
    return result
