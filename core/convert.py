"""Import a network that others trained, as a checkpoint folder.

python -m core.convert --from FAMILY SOURCE --out DIR [--heads N] [--words FILE FILE]
    [--words-from FILE FILE] [--first TOKEN] [--from-lang CODE] [--to-lang CODE] [--prefix TEXT]
    [--reference FILE.npz] [--author NAME] [--licence NAME] [--json FILE]
python -m core.convert --check SOURCE [--from FAMILY] [--reference FILE.npz]
python -m core.convert --from FAMILY --reference-script

FAMILY is friendshipkim, hyunwoongko, tutorial, bentrevett or annotated (a safetensors file of the
state dict), marian, pegasus, bart, mbart, m2m100, fsmt or t5 (a folder as Hugging Face saves it).
DIR ends with the direction, as in NAME-de-en. The network is compared with the original if
transformers is installed or a reference is given; see core/foreign/README.md. --check
writes nothing, and prints a report to paste into an issue, without paths, names or words of the
vocabulary. No pickle is read. These two lines write a .pt file as safetensors:

"""

import re
import sys
from argparse import Namespace
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.command import Parser, main, table, whole_number, write_result
from core.files import printable
from core.foreign.finding import TO_SAFETENSORS

if TYPE_CHECKING:
    from core.foreign.family import Options


def run(arguments: Namespace) -> None:
    """Convert, print what was compared and write the JSON; or print a report or the script."""
    from core.foreign.importing import FAMILIES, import_network
    from core.foreign.reference import script
    from core.foreign.refusals import refusal

    family = arguments.family
    if arguments.check and family is None:
        return _check(arguments)
    if family is None:
        raise ValueError(f"a conversion needs --from FAMILY: choose {', '.join(FAMILIES)}")
    if reason := refusal(family):
        raise ValueError(f"--from {printable(family)[:40]} cannot be converted: {reason}")
    if family not in FAMILIES:
        raise ValueError(
            f"--from {printable(family)[:40]} is unknown: choose {', '.join(FAMILIES)}"
        )
    if arguments.reference_script:
        sys.stdout.write(script(family))
        return
    if arguments.check:
        return _check(arguments)
    if arguments.source is None or arguments.out is None:
        raise ValueError("a conversion needs SOURCE and --out DIR")
    out = Path(arguments.out)
    direction = re.fullmatch(r".+-([a-z]{2,8})-([a-z]{2,8})", out.name)
    if direction is None:
        raise ValueError(
            f"--out {printable(str(out))} does not end with a direction: call it {out.name}-de-en "
            "for a network from German to English"
        )
    options = _options(arguments, (direction[1], direction[2]))
    result = import_network(
        family,
        arguments.source,
        out,
        options,
        arguments.reference,
        arguments.author,
        arguments.licence,
    )
    values: dict[str, Any] = result.imported.to_json()
    table(
        [
            (out.name, f"{result.parameters:,} weights"),
            *(
                (f"✓ {one['what']}", f"{one['max_abs_diff']:.2g} (limit {one['limit']:.2g})")
                for one in values["compared"]
            ),
            *(("not verified", sentence) for sentence in values["not_proven"]),
            *(("note", sentence) for sentence in result.notes),
        ]
    )
    report: dict[str, Any] = {"source": str(arguments.source), "family": family, "out": str(out)}
    kept = {name: values[name] for name in ("compared", "not_proven")}
    report |= {"parameters": result.parameters, **kept, "notes": list(result.notes)}
    write_result(arguments.json, report)


def _options(arguments: Namespace, languages: tuple[str, str]) -> "Options":
    from core.foreign.family import Options

    return Options(
        languages=languages,
        heads=arguments.heads,
        words=tuple(arguments.words or ()),
        words_from=tuple(arguments.words_from or ()),
        first=arguments.first,
        codes=(arguments.from_lang, arguments.to_lang),
        prefix=arguments.prefix,
    )


def _check(arguments: Namespace) -> None:
    """Print the report of a folder's check; raise ValueError if the network did not pass it."""
    from core.foreign.report import check_folder

    if arguments.out is not None:
        raise ValueError("--check writes no folder: leave out --out, or convert without --check")
    # No comparison depends on the languages.
    options = replace(_options(arguments, ("de", "en")), any_codes=True)
    report = check_folder(arguments.check, arguments.family, options, arguments.reference)
    sys.stdout.write(f"{report.text}\n")
    write_result(arguments.json, {k: v for k, v in asdict(report).items() if k != "text"})
    if not report.passed:
        raise ValueError("the check did not pass: see the report")


def _one_line(text: str) -> str:
    """Reduce an argument to one line of at most 500 characters, for the model card."""
    return printable(text)[:500]


def parser() -> Parser:
    lines = "\n".join(f"    {line}" for line in TO_SAFETENSORS)
    p = Parser(prog="python -m core.convert", description=f"{__doc__}{lines}")
    p.path("source", "a safetensors file, or a saved folder", nargs="?")
    p.add_argument("--from", dest="family", help="the family of the network")
    p.path("--check", "compare this network with the original, and print a report")
    p.path("--out", "the new checkpoint folder, NAME-xx-yy")
    p.add_argument("--heads", type=whole_number(1, 128), help="number of attention heads")
    p.path("--words", "word lists in the order of their ids", nargs=2, metavar=("SOURCE", "TARGET"))
    p.path(
        "--words-from",
        "the training text, from which to rebuild the word lists",
        nargs=2,
        metavar=("SOURCE", "TARGET"),
    )
    p.add_argument("--first", help="a token in front of each source, such as >>fra<<")
    p.languages()
    p.path("--reference", "outputs of the original network, an .npz file")
    p.flag("--reference-script", "print a script that makes a reference")
    p.add_argument("--author", type=_one_line, default="", help="who trained the network")
    p.add_argument("--licence", type=_one_line, default="", help="the licence of the weights")
    p.path("--json", "write the result here")
    return p


if __name__ == "__main__":
    main(parser(), run)
