"""Find function words by spaCy's lists of stop words."""

from __future__ import annotations

from collections.abc import Iterable


def function_words(language: str, words: Iterable[str]) -> frozenset[str]:
    """Return the given words that spaCy's lexical attribute `is_stop` flags in a language.

    A stop list holds frequent words: articles, pronouns, prepositions, auxiliaries, but also a few
    content words, such as "front" in English. Raises ValueError, in one line, for a language that
    spaCy does not know or has no list for.
    """
    from spacy.util import get_lang_class  # takes seconds to import
    from spacy.vocab import create_vocab

    try:
        defaults = get_lang_class(language).Defaults  # no tokenizer: some need packages
    except ImportError:
        raise ValueError(
            f"spaCy does not know the language {language!r}: function words are not measured"
        ) from None
    if not defaults.stop_words:
        raise ValueError(
            f"spaCy has no list of stop words for {language!r}: function words are not measured"
        )
    vocabulary = create_vocab(language, defaults)
    return frozenset(word for word in set(words) if vocabulary[word].is_stop)
