"""TED talks of the IWSLT campaigns, in their original XML."""

import html
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

from core.data.text_files import Find, read_lines

_TAG = re.compile(r"\s*</?[a-z]+[ >]")


def read(campaign: str, split: str, find: Find | None) -> list[tuple[str, str]]:
    """Read (German, English) pairs of `train`, or a development or test set such as `tst2015`.

    `campaign` is the prefix of the files, IWSLT16 or IWSLT17. Raises ValueError if the two sides
    have different numbers of segments.
    """
    if find is None:
        raise ValueError(
            f"{campaign} is behind a form and cannot be downloaded: unpack its de-en.tgz in a "
            "folder and pass the folder as --data"
        )
    if split == "train":
        files = [find(f"de-en/train.tags.de-en.{language}") for language in ("de", "en")]
        german, english = (_untagged(file) for file in files)
    else:
        names = [f"de-en/{campaign}.TED.{split}.de-en.{language}.xml" for language in ("de", "en")]
        files = [find(name) for name in names]
        german, english = (_segments(file) for file in files)
    if len(german) != len(english):
        raise ValueError(
            f"{files[0].name} has {len(german)} segments and {files[1].name} has {len(english)}: "
            "they are from different editions"
        )
    return list(zip(german, english, strict=True))


def _untagged(file: Path) -> list[str]:
    """Read a training file, which is not real XML: skip the lines that are tags."""
    return [html.unescape(line.strip()) for line in read_lines(file) if not _TAG.match(line)]


def _segments(file: Path) -> list[str]:
    try:
        root = ElementTree.fromstring("\n".join(read_lines(file)))
    except ElementTree.ParseError as error:
        raise ValueError(f"{file} is not an IWSLT XML file: {error}") from None
    return ["".join(segment.itertext()).strip() for segment in root.iter("seg")]
