"""Parallel corpora by name: sources, splits, checksums and credits."""

import html
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from core.data import dates, iwslt, names, tatoeba, wmt
from core.data.text_files import Find, LinePairs, finder


class Languages(dict[str, str]):
    """English language names by ISO 639 code; for a code that ISO 639 lacks, the code itself.

    The languages of the corpora are stored; other names are looked up on demand.
    """

    def __missing__(self, code: str) -> str:
        return _iso_name(code)


@lru_cache(maxsize=1000)
def _iso_name(code: str) -> str:
    from iso639 import Language, LanguageNotFoundError  # takes 0.1 to 0.5 s

    try:
        name = Language.match(code).name  # match also finds names, but codes are lower-case
    except LanguageNotFoundError:
        return code
    return re.sub(r" \(.*\)$", "", name)  # Modern Greek (1453-), Swahili (macrolanguage)


LANGUAGES = Languages(de="German", en="English")

Pairs = list[tuple[str, str]]


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """A named German-English corpus.

    `read(split, find, source, target)` returns the (source, target) pairs of a split. `home` is the
    URL of the folder with its files, or None if they cannot be downloaded one by one. `sha256`
    holds the checksums of the files.
    """

    name: str
    about: str
    credit: str
    splits: tuple[str, ...]
    read: Callable[[str, Find | None, str, str], Pairs]
    home: str | None = None
    sha256: dict[str, str] = field(default_factory=dict)


def _multi30k(split: str, find: Find | None, source: str, target: str) -> Pairs:
    assert find is not None  # because the corpus has a `home`
    return list(LinePairs(*(find(f"{split}.{language}.gz") for language in (source, target))))


def _tatoeba(split: str, find: Find | None, source: str, target: str) -> Pairs:
    assert find is not None
    return _oriented(target, tatoeba.split(tatoeba.read(find("deu-eng.zip")))[split])


def _iwslt(year: int, last_test: int) -> Corpus:
    return Corpus(
        name=f"iwslt20{year}",
        about="talks",
        credit=f"IWSLT 20{year}, German-English: {_TED}",
        splits=("train", "dev2010", *(f"tst{test}" for test in range(2010, last_test + 1))),
        read=lambda split, find, source, target: _oriented(
            target, iwslt.read(f"IWSLT{year}", split, find)
        ),
    )


def _oriented(target: str, german_english: Pairs) -> Pairs:
    """Order each pair as (source, target)."""
    return german_english if target == "en" else [(e, g) for g, e in german_english]


_TED = (
    "TED talks with the translations of TED's volunteers (Cettolo, Girardi & Federico 2012), "
    "released by TED under CC BY-NC-ND 4.0. The text itself is not part of this project."
)

CORPORA = {
    corpus.name: corpus
    for corpus in (
        Corpus(
            name="multi30k",
            home="https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw/",
            about="captions of photographs",
            credit="Multi30k, task 1 (Elliott, Frank, Sima'an & Specia 2016): 29,000 English "
            "captions of Flickr30k photographs (Young et al. 2014) with German translations by "
            "professionals. Its public home names no licence; the captions are Flickr30k's, "
            "distributed for non-commercial research and education: check their terms before any "
            "other use. The text itself is not part of this project.",
            splits=("train", "val", "test_2016_flickr"),
            sha256={
                "train.de.gz": "726e39b2fa9eb9ffb6dc763fb35a179f80fae06ffc5d28b6ace5faa883de28a6",
                "train.en.gz": "d79cfa999dd4c51d2cb42499b6796d5a882c3a8a961923c25a898c90f8bbd56f",
                "val.de.gz": "f0cba2f995189cf5770f29a8a9a537a3ad3f51657ad873405082ff6863a5e75a",
                "val.en.gz": "14f7d25ddd868909a9213e361768460edcacdd6ab9d1e77b92560dc10c10dc28",
                "test_2016_flickr.de.gz": "9204244e408ccb38d2a55cfcd344df15005fc42a07a6e55ca6c52b6ababb8cc8",  # noqa: E501
                "test_2016_flickr.en.gz": "611d361c6334bc7246101d48097c13cf5c4413c5befc793cc629934359d532d9",  # noqa: E501
            },
            read=_multi30k,
        ),
        Corpus(
            name="tatoeba",
            home="https://www.manythings.org/anki/",
            about="short everyday sentences",
            credit="Tatoeba's German-English sentence pairs as collected by manythings.org/anki "
            "(state of 2018-05-13, 169,813 pairs), CC BY 2.0 (France); the sentences and their "
            "translations are by the contributors to tatoeba.org. manythings.org replaces its "
            "file from time to time: a file of another date is rejected, because its hold-out set "
            "would differ. The text itself is not part of this project.",
            splits=("train", "val", "test"),
            sha256={
                "deu-eng.zip": "b7688f84f99fa33c17397c14d8bd9cef1fdeb2ee0bf50074767023aee8926e28"
            },
            read=_tatoeba,
        ),
        _iwslt(16, 2014),
        _iwslt(17, 2015),
        Corpus(
            name="wmt",
            about="news",
            credit="The news test sets of the WMT campaigns, for research; fetched by sacreBLEU "
            "(Post 2018), which knows their checksums. They are for scoring, not for training.",
            splits=wmt.SETS,
            read=wmt.read,
        ),
        Corpus(
            name="names",
            about="names, places, numbers and dates in everyday sentences",
            credit="Generated by this project from hand-made lists, for scoring.",
            splits=names.SPLITS,
            read=lambda split, find, source, target: _oriented(target, names.read(split)),
        ),
        Corpus(
            name="dates",
            about="generated dates",
            credit="Generated by this project: dates written out in German, and as ISO 8601.",
            splits=tuple(dates.SPLITS),
            read=lambda split, find, source, target: _oriented(target, dates.read(split)),
        ),
    )
}


def read_pairs(name: str, split: str, source: str, target: str, data: Path | None = None) -> Pairs:
    """Read the (source, target) sentence pairs of one split.

    `data` is a folder that contains `<name>/` with the corpus files, plain or gzipped. Without
    `data`, the files are downloaded to the user's cache and their SHA-256 is verified. HTML
    entities are resolved. Raises ValueError, with a one-line message, for unknown names and missing
    or changed files.
    """
    if name not in CORPORA:
        raise ValueError(f"unknown corpus {name!r}: choose one of {', '.join(CORPORA)}")
    if {source, target} != set(LANGUAGES):
        raise ValueError(
            f"{name} is between {' and '.join(LANGUAGES.values())}, not from {LANGUAGES[source]} "
            f"to {LANGUAGES[target]}: give --src FILE and --ref FILE"
        )
    corpus = CORPORA[name]
    if split not in corpus.splits:
        raise ValueError(f"{name} has no split {split!r}: choose one of {', '.join(corpus.splits)}")
    find = finder(name, corpus.home, corpus.sha256, data)
    pairs = corpus.read(split, find, source, target)
    return [(html.unescape(left), html.unescape(right)) for left, right in pairs]


def about(names: Iterable[str]) -> str:
    """Describe the domain of a network trained on these corpora."""
    return " and ".join(CORPORA[name].about if name in CORPORA else name for name in names)
