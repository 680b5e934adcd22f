"""Translate standard input to standard output, line for line.

python -m core.translate --checkpoint DIR [--beam N] [--batch-tokens N]
    [--from-lang CODE] [--to-lang CODE] [--prefix TEXT] < in > out

A file is read and checked completely before the first line is translated; lines of a pipe or
terminal are translated as they arrive. Quality warnings go to standard error with their line
numbers.
"""

import os
import select
import stat
import sys
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from core.command import Parser, main, progress_bar, whole_number, write_credit
from core.config import DecodeConfig
from core.data.batches import parts
from core.data.corpora import LANGUAGES
from core.data.text_files import decode_lines
from core.files import printable
from core.translator import Translator

_PIPE_BYTES = 1 << 20  # read from a pipe at once
_CHUNK_BATCHES = 2  # batches per chunk; lines are sorted by length within a chunk


def run(arguments: Namespace) -> None:
    """Translate the input in batches and write the translations in input order."""
    for stream, name in ((sys.__stdin__, "input"), (sys.__stdout__, "output")):
        if stream is None:
            raise ValueError(f"standard {name} is closed: translate reads and writes line for line")
    translator = Translator.load(arguments.checkpoint, arguments.device)
    translator = translator.between(arguments.from_lang, arguments.to_lang, arguments.prefix)
    write_credit(translator.card.folder.name, translator.card.credit)
    decode = DecodeConfig(beam=arguments.beam)
    language, number = LANGUAGES[translator.card.source_language], 1
    for lines in read_available(sys.stdin.buffer):
        texts = list(decode_lines(lines, "standard input", number))
        counts, first = translator.count_tokens(texts, number), number
        number += len(texts)
        with progress_bar(len(texts)) as on_progress:
            limit = _CHUNK_BATCHES * arguments.batch_tokens
            for chunk in parts(range(len(texts)), lambda i, counts=counts: counts[i] + 1, limit):
                translations = translator.translate(
                    [texts[i] for i in chunk], decode, arguments.batch_tokens, on_progress
                )
                for line, one in enumerate(translations, start=first + chunk[0]):
                    sys.stdout.buffer.write(one.text.encode() + b"\n")
                    reasons = translator.quality_warnings(one).reasons(language, printable)
                    if one.source.strip() and not one.text:
                        reasons.append("the translation is empty: it has special tokens only")
                    if reasons:
                        sys.stderr.write(f"line {line}: {'; '.join(reasons)}\n")
                sys.stdout.buffer.flush()


def read_available(stream: BinaryIO) -> Iterator[list[bytes]]:
    """Yield all lines of a file at once, or those of a pipe or terminal as they arrive.

    Lines keep their \\n. Only \\n ends a line, so that output and input correspond line for line.
    """
    descriptor, rest = stream.fileno(), b""
    whole = os.name != "posix" or stat.S_ISREG(os.fstat(descriptor).st_mode)
    while content := os.read(descriptor, _PIPE_BYTES):
        pieces = [content]
        while whole or (
            sum(map(len, pieces)) < _PIPE_BYTES and select.select([descriptor], [], [], 0)[0]
        ):
            if not (content := os.read(descriptor, _PIPE_BYTES)):
                break
            pieces.append(content)
        *lines, rest = b"".join([rest, *pieces]).split(b"\n")
        if lines:
            yield [line + b"\n" for line in lines]
    if rest:
        yield [rest]


def parser() -> Parser:
    p = Parser(prog="python -m core.translate", description=__doc__)
    p.add_argument("--checkpoint", type=Path, required=True)
    p.add_argument("--beam", type=whole_number(1, 16), default=5)
    p.add_argument("--batch-tokens", type=whole_number(1), default=2048)
    p.add_argument("--device", default="auto")
    p.languages()
    return p


if __name__ == "__main__":
    main(parser(), run)
