"""Parallel corpora by name: fetch once from their public home, verify SHA-256, read."""

import gzip
import os
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from core.files import sha256, write_atomic

LANGUAGES = {"de": "German", "en": "English"}


@dataclass(frozen=True)
class Corpus:
    """A named corpus: the public folder of its files, their SHA-256, and what to say of it."""

    name: str
    home: str
    about: str
    credit: str
    splits: tuple[str, ...]
    sha256: dict[str, str]


CORPORA = {
    "multi30k": Corpus(
        name="multi30k",
        home="https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw/",
        about="captions of photographs: people, animals, streets, sports",
        credit="Multi30k, task 1 (Elliott, Frank, Sima'an & Specia 2016): 29,000 English captions "
        "of Flickr30k photographs (Young et al. 2014) with German translations by professionals. "
        "Its public home names no licence; the captions are Flickr30k's, given out for "
        "non-commercial research and education: look at their terms before any other use. The "
        "text itself is not part of this project.",
        splits=("train", "val", "test_2016_flickr"),
        sha256={
            "train.de.gz": "726e39b2fa9eb9ffb6dc763fb35a179f80fae06ffc5d28b6ace5faa883de28a6",
            "train.en.gz": "d79cfa999dd4c51d2cb42499b6796d5a882c3a8a961923c25a898c90f8bbd56f",
            "val.de.gz": "f0cba2f995189cf5770f29a8a9a537a3ad3f51657ad873405082ff6863a5e75a",
            "val.en.gz": "14f7d25ddd868909a9213e361768460edcacdd6ab9d1e77b92560dc10c10dc28",
            "test_2016_flickr.de.gz": "9204244e408ccb38d2a55cfcd344df15005fc42a07a6e55ca6c52b6ababb8cc8",  # noqa: E501
            "test_2016_flickr.en.gz": "611d361c6334bc7246101d48097c13cf5c4413c5befc793cc629934359d532d9",  # noqa: E501
        },
    )
}


def read_pairs(
    name: str, split: str, source: str, target: str, data: Path | None = None
) -> list[tuple[str, str]]:
    """Sentence pairs (source, target) of one split.

    `data` is a folder that holds `<name>/<split>.<language>`, gzipped or plain; without it the
    files are fetched into the user's cache and their SHA-256 is verified. Raises ValueError, in
    one line, for what is missing or does not match.
    """
    if name not in CORPORA:
        raise ValueError(f"unknown corpus {name!r}: choose one of {', '.join(CORPORA)}")
    corpus = CORPORA[name]
    if split not in corpus.splits:
        raise ValueError(f"{name} has no split {split!r}: choose one of {', '.join(corpus.splits)}")
    files = [_file(corpus, f"{split}.{language}.gz", data) for language in (source, target)]
    return pair_lines(*(read_lines(file) for file in files), names=[f.name for f in files])


def pair_lines(source: list[str], target: list[str], names: list[str]) -> list[tuple[str, str]]:
    """Line i of one file beside line i of the other. Raises ValueError if the counts differ."""
    if len(source) != len(target):
        raise ValueError(
            f"{names[0]} has {len(source)} lines and {names[1]} has {len(target)}: "
            "a parallel corpus needs the same number, line for line"
        )
    return list(zip(source, target, strict=True))


def read_lines(file: Path) -> list[str]:
    """The lines of a plain or gzipped UTF-8 file. Raises ValueError if it is no such file."""
    try:
        raw = file.read_bytes()
        text = (gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw).decode("utf-8")
    except FileNotFoundError:
        raise ValueError(f"{file} does not exist: check the path") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"{file} is not UTF-8 (byte {error.start}): convert it first") from None
    except (OSError, EOFError) as error:
        raise ValueError(f"{file} cannot be read: {error}") from None
    return text.removesuffix("\n").split("\n") if text else []  # a line ends with \n, nothing else


def _file(corpus: Corpus, filename: str, data: Path | None) -> Path:
    """A file the user vouches for by `--data`, or one of ours: fetched once and always verified."""
    if data is not None:
        plain = filename.removesuffix(".gz")
        places = [folder / f for folder in (data / corpus.name, data) for f in (filename, plain)]
        for file in places:
            if file.is_file():
                return file
        raise ValueError(f"{places[0]} does not exist: --data needs a folder with {corpus.name}/")
    file = _cache() / corpus.name / filename
    if not file.is_file():
        _fetch(corpus.home + filename, file, corpus.sha256[filename])
    elif sha256(file.read_bytes()) != corpus.sha256[filename]:
        raise ValueError(f"{file} has changed since it was fetched: delete it to fetch it again")
    return file


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "headlight"


def _fetch(url: str, file: Path, digest: str) -> None:
    """Download, verify, then keep: a broken download never counts as one."""
    try:
        with urllib.request.urlopen(url, timeout=60) as response:
            content = response.read()
    except OSError as error:
        raise ValueError(
            f"cannot fetch {url} ({error}): check the network or pass --data"
        ) from None
    if sha256(content) != digest:
        raise ValueError(f"{url} has SHA-256 {sha256(content)}, expected {digest}: not kept")
    write_atomic(file, content)
