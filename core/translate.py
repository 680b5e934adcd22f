"""Translate standard input to standard output, line for line.

python -m core.translate --checkpoint DIR [--beam N] [--batch-tokens N] < in > out
"""

import argparse
import sys
from pathlib import Path

from core.command import counting, main
from core.config import DecodeConfig
from core.translator import Translator


def run(arguments: argparse.Namespace) -> None:
    """Read all lines, translate them in batches, write them in their order."""
    translator = Translator.load(arguments.checkpoint, arguments.device)
    # A line ends with \n and nothing else, or output and input would not pair line for line.
    text = sys.stdin.buffer.read().decode("utf-8")
    lines = text.removesuffix("\n").split("\n") if text else []
    decode = DecodeConfig(beam=arguments.beam)
    with counting(len(lines)) as done:
        translations = translator.translate(lines, decode, arguments.batch_tokens, done)
    for translation in translations:
        sys.stdout.buffer.write(translation.text.encode() + b"\n")


def parser() -> argparse.ArgumentParser:
    """The command line."""
    p = argparse.ArgumentParser(prog="python -m core.translate", description=__doc__)
    p.add_argument("--checkpoint", type=Path, required=True)
    p.add_argument("--beam", type=int, default=5)
    p.add_argument("--batch-tokens", type=int, default=2048)
    p.add_argument("--device", default="auto")
    return p


if __name__ == "__main__":
    main(parser(), run)
