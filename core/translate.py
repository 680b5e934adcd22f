"""Translate standard input to standard output, line for line.

python -m core.translate --checkpoint DIR [--beam N] [--batch-tokens N] < in > out

Each line is written as soon as those before it are: of a file all is read and checked first, of a
pipe or a terminal what has arrived. Reasons to doubt a translation go to standard error, each with
the number of its line.
"""

import os
import select
import stat
import sys
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from core.command import Parser, main, progress_bar, whole_number
from core.config import DecodeConfig
from core.data.corpora import LANGUAGES
from core.data.text_files import decode_lines
from core.files import printable
from core.translator import Translator

_PIPE = 1 << 20  # bytes taken from a pipe at once
_AT_ONCE = 2  # batches whose lines are sorted by length


def run(arguments: Namespace) -> None:
    """Read lines, translate them in batches, write them in their order."""
    for stream, name in ((sys.__stdin__, "input"), (sys.__stdout__, "output")):
        if stream is None:
            raise ValueError(f"standard {name} is closed: translate reads and writes line for line")
    translator = Translator.load(arguments.checkpoint, arguments.device)
    decode = DecodeConfig(beam=arguments.beam)
    language, number = LANGUAGES[translator.card.source_language], 1
    for lines in arriving(sys.stdin.buffer):
        texts = list(decode_lines(lines, "standard input", number))
        counts, first = translator.count_tokens(texts, number), number
        number += len(texts)
        with progress_bar(len(texts)) as done:
            for part in _parts(counts, _AT_ONCE * arguments.batch_tokens):
                found = translator.translate(texts[part], decode, arguments.batch_tokens, done)
                for line, one in enumerate(found, start=first + part.start):
                    sys.stdout.buffer.write(one.text.encode() + b"\n")
                    if reasons := translator.quality_warnings(one).reasons(language, printable):
                        sys.stderr.write(f"line {line}: {'; '.join(reasons)}\n")
                sys.stdout.buffer.flush()


def arriving(stream: BinaryIO) -> Iterator[list[bytes]]:
    """Yield the lines of a file, or those that a pipe or terminal holds, with their \\n.

    A line ends with \\n and nothing else, or output and input would not pair line for line.
    """
    descriptor, rest = stream.fileno(), b""
    whole = os.name != "posix" or stat.S_ISREG(os.fstat(descriptor).st_mode)
    while content := os.read(descriptor, _PIPE):
        pieces = [content]
        while whole or (
            sum(map(len, pieces)) < _PIPE and select.select([descriptor], [], [], 0)[0]
        ):
            if not (content := os.read(descriptor, _PIPE)):
                break
            pieces.append(content)
        *lines, rest = b"".join([rest, *pieces]).split(b"\n")
        if lines:
            yield [line + b"\n" for line in lines]
    if rest:
        yield [rest]


def _parts(counts: list[int], tokens: int) -> Iterator[slice]:
    """Neighbours that together have so many tokens at most, or one by itself that has more."""
    start = total = 0
    for i, count in enumerate(counts):
        if total and total + count + 1 > tokens:
            yield slice(start, i)
            start, total = i, 0
        total += count + 1
    if counts:
        yield slice(start, len(counts))


def parser() -> Parser:
    """The command line."""
    p = Parser(prog="python -m core.translate", description=__doc__)
    p.add_argument("--checkpoint", type=Path, required=True)
    p.add_argument("--beam", type=whole_number(1, 16), default=5)
    p.add_argument("--batch-tokens", type=whole_number(1), default=2048)
    p.add_argument("--device", default="auto")
    return p


if __name__ == "__main__":
    main(parser(), run)
