"""HTML card of a record for notebooks: all text escaped, no scripts, no network requests."""

from collections.abc import Iterable, Sequence
from html import escape

_STYLE = "border:1px solid currentColor;border-radius:6px;padding:0.6em 1em;max-width:48em"
_LONGEST = 1000  # characters


def card(
    texts: Iterable[tuple[str, str]],
    facts: str,
    checks: Iterable[tuple[str, bool]],
    unchecked: Sequence[str] = (),
) -> str:
    """Return HTML for (language, text) pairs, a line of facts, and (name, passed) checks.

    `unchecked` names the checks that could not run, because they need the weights.
    """
    lines = [
        f'<p style="margin:0 0 0.4em"><small>{escape(language)}</small><br>'
        f"{escape(text if len(text) <= _LONGEST else text[:_LONGEST] + '…')}</p>"
        for language, text in texts
    ]
    named = [f"{'✓' if passed else '✗'} {escape(name)}" for name, passed in checks]
    passed = sum(line.startswith("✓") for line in named)
    verdict = f"Checks: {passed} of {len(named)} passed" if named else "Not checked"
    if unchecked:
        verdict += f", {len(unchecked)} need the weights"
        named += [f"– {escape(name)}: needs the weights" for name in unchecked]
    listed = "".join(f"<br>{line}" for line in named)
    return (
        f'<div style="{_STYLE}">{"".join(lines)}<small>{escape(facts)}</small>'
        f"<details><summary>{verdict}</summary><small>{listed.removeprefix('<br>')}</small>"
        "</details></div>"
    )
