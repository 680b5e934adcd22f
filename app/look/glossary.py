"""Short explanations of technical terms, for `help=` texts."""

from app.lessons.texts import keys, text

_TABLE = "terms."

TERMS = {
    key.removeprefix(_TABLE): text("glossary", key)
    for key in keys("glossary")
    if key.startswith(_TABLE)
}
"""Explanations by term, from `app/lessons/en/glossary.toml`."""


def meaning(*terms: str) -> str:
    """Return the explanations of some terms, one paragraph each, for `help=`.

    Raises KeyError for an unknown term.
    """
    return "\n\n".join(TERMS[term].replace("<", "\\<") for term in terms)
