"""A report on somebody's folder, to paste into an issue: what was compared, and nothing private."""

import platform
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from core.checkpoint.imported import Comparison
from core.files import MAX_CONFIG_BYTES, printable
from core.foreign.comparison import DifferentError
from core.foreign.family import Options, Plan
from core.foreign.importing import FAMILIES, comparison_table, shape, verified
from core.foreign.refusals import refusal
from core.foreign.sources import read_json, shown

_PACKAGES = ("transformers", "tokenizers", "safetensors", "sentencepiece", "numpy")


@dataclass(frozen=True)
class Report:
    """What a check of a folder found; `verdict` is one line, `text` everything as Markdown."""

    passed: bool
    verdict: str
    text: str
    compared: tuple[Comparison, ...] = ()
    not_proven: tuple[str, ...] = ()


def check_folder(
    folder: Path, family: str | None, options: Options, reference: Path | None
) -> Report:
    """Convert a folder in memory and compare it with the original; write nothing.

    `family` is read from config.json if it is None. A network that cannot be converted is reported
    like one that differs. The report names no path, and quotes neither the vocabulary nor the name
    of the folder. Raises ValueError if the family is unknown.
    """
    family = family or _family(folder)
    facts = {"family": family}
    try:
        _, plan, result = verified(family, folder, options, reference)  # ty: ignore[invalid-argument-type]
    except ValueError as error:
        why = _public(error, folder, reference)
        different = isinstance(error, DifferentError)
        verdict = f"{'differs from the original' if different else 'cannot be converted'}: {why}"
        return Report(False, verdict, _markdown(verdict, facts, ""))
    imported = result.imported
    facts |= {
        "network": shape(plan),
        "weights": f"{result.parameters:,}, SHA-256 {imported.sha256}",
        "languages compared": _codes(plan),
        "search settings": " ".join(plan.remarks) or "none that change a translation",
    }
    complete = any(one.what.startswith("logits") for one in imported.compared)
    verdict = "computes what the original computes" if complete else "converted, not compared"
    rows = [comparison_table(imported.compared), "**Not verified**"]
    rows += [f"- {sentence}" for sentence in imported.not_proven] or ["Nothing is left."]
    text = _markdown(verdict, facts, "\n\n".join(rows[:2]) + "\n\n" + "\n".join(rows[2:]))
    return Report(complete, verdict, text, imported.compared, imported.not_proven)


def _family(folder: Path) -> str:
    """Return the family that config.json names. Raises ValueError if there is none."""
    file = folder / "config.json"
    config = read_json(Mapping[str, Any], file, MAX_CONFIG_BYTES, MAX_CONFIG_BYTES)
    named = printable(str(config.get("model_type")))[:40]
    family = {"mt5": "t5"}.get(named, named.replace("_", ""))
    if family in FAMILIES:
        return family
    why = refusal(family)
    raise ValueError(
        f"{shown(file)} has the model_type {named}, which "
        + (f"cannot be converted: {why}" if why else "is no family here: name one with --from")
    )


def _codes(plan: Plan) -> str:
    """Return the language codes that sources and targets began with, if there are such codes."""
    frame = plan.source.tokenizer.frame
    of = {id: code for code, id in frame.languages.items()}
    return " → ".join(of[id] for id in (*frame.first, *frame.forced) if id in of) or "no codes"


def _public(error: ValueError, folder: Path, reference: Path | None) -> str:
    """Return an error without paths, and without the text of the vocabulary that it quotes."""
    text = str(error)
    if quoted := getattr(error, "quoted", ""):
        text = text.replace(quoted, "a generated line")
    for path, word in ((folder, "FOLDER"), (reference, "REFERENCE")):
        for form in {path, path.resolve()} if path else ():
            text = text.replace(shown(form), word)
    return text.replace(str(Path.home()), "~")


def _markdown(verdict: str, facts: dict[str, str], rest: str) -> str:
    versions = {"Headlight": _version("core"), "Python": platform.python_version()}
    versions |= {"torch": torch.__version__} | {name: _version(name) for name in _PACKAGES}
    facts = facts | {"versions": ", ".join(f"{name} {one}" for name, one in versions.items())}
    table = "\n".join(f"| {name} | {value} |" for name, value in facts.items())
    head = (
        f"**Check of a network for conversion**\n\n| result | {verdict} |\n| --- | --- |\n{table}"
    )
    return f"{head}\n\n{rest}".rstrip()


def _version(package: str) -> str:
    """Return the version of a package that this process has loaded."""
    return getattr(sys.modules.get(package), "__version__", "not used")
