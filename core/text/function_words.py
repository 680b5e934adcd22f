"""Function words: spaCy's lists of stop words."""

from __future__ import annotations


def function_words(language: str) -> frozenset[str]:
    """Return spaCy's stop words of a language, in lower case, as its attribute `is_stop` does.

    A stop list holds frequent words: articles, pronouns, prepositions, auxiliaries, but also a few
    content words, such as "front" in English. Raises ValueError, in one line, for a language that
    spaCy does not know or has no list for.
    """
    from spacy.util import get_lang_class  # takes seconds to import

    try:
        words = get_lang_class(language).Defaults.stop_words
    except ImportError:
        raise ValueError(
            f"spaCy does not know the language {language!r}: function words are not measured"
        ) from None
    if not words:
        raise ValueError(
            f"spaCy has no list of stop words for {language!r}: function words are not measured"
        )
    return frozenset(words)
