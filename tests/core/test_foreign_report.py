"""The report of `core.convert --check`: what it compares, and what it keeps to itself."""

import json
import shutil
import sys

import numpy as np
import pytest

from core import convert
from core.foreign.family import Options
from core.foreign.importing import import_network

PRIVATE = "acquisition of Initech"


@pytest.fixture
def secret(opus, tmp_path):
    """The folder under a private name, whose settings hold a private path."""
    folder = shutil.copytree(opus, tmp_path / PRIVATE)
    file = folder / "config.json"
    values = json.loads(file.read_text())
    file.write_text(json.dumps(values | {"_name_or_path": f"/home/ada/{PRIVATE}"}))
    return folder


def keeps_quiet(text: str, folder) -> None:
    """Fail if the report holds the folder's name or place."""
    assert PRIVATE not in text and str(folder.parent) not in text and "ada" not in text


def test_the_report_has_the_numbers_of_a_conversion(lines, secret, tmp_path):
    reference, report = secret / "reference.npz", tmp_path / "report.json"
    code, out, error = lines(
        *(convert, "--check", secret, "--reference", reference, "--json", report)
    )
    assert code == 0, error
    keeps_quiet(out, secret)
    done = import_network(
        *("marian", secret, tmp_path / "x-de-en", Options(languages=("de", "en")), reference)
    )
    rows = {
        row.split(" | ")[0].strip("| "): row.split(" | ")[1]
        for row in out.splitlines()
        if " | " in row
    }
    compared = {one.what: f"{one.max_abs_diff:.2g}" for one in done.imported.compared}
    assert len(compared) > 8 and compared.items() <= rows.items()
    assert done.imported.sha256 in rows["weights"] and "torch 2." in rows["versions"]
    assert rows["result"].rstrip(" |") == "computes what the original computes"
    values = json.loads(report.read_text())
    assert values["passed"] and [one["what"] for one in values["compared"]] == [*compared]
    assert {entry.name for entry in tmp_path.iterdir()} == {PRIVATE, "x-de-en", "report.json"}


def test_a_network_without_a_reference_is_not_called_right(lines, secret, monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    code, out, error = lines(convert, "--check", secret)
    assert code == 1 and error == "error: the check did not pass: see the report\n"
    assert "| result | converted, not compared |" in out
    assert "transformers is not installed" in out and "transformers not used" in out
    keeps_quiet(out, secret)


def other_numbers(folder) -> str:
    """Change one logit of the reference."""
    with np.load(folder / "reference.npz") as found:
        arrays = dict(found)
    arrays["logits_64"][0, 0, 5] += 1e-3
    np.savez(folder / "reference.npz", **arrays)
    return "differs from the original: logits, float64 differ by 0.001"


def other_tokens(folder) -> str:
    """Change an id of a line of the reference."""
    with np.load(folder / "reference.npz") as found:
        arrays = dict(found)
    tokens = json.loads(arrays["tokens"].tobytes())
    tokens["ids"][0][0] += 1
    arrays["tokens"] = np.frombuffer(json.dumps(tokens).encode(), np.uint8)
    np.savez(folder / "reference.npz", **arrays)
    return "source lines differ, first in a generated line, token 1"


def no_weights(folder) -> str:
    (folder / "model.safetensors").unlink()
    return "cannot be converted: FOLDER"


@pytest.mark.parametrize("break_it", [other_numbers, other_tokens, no_weights])
def test_a_failure_is_reported_without_names(lines, secret, break_it):
    says = break_it(secret)
    code, out, _ = lines(*(convert, "--check", secret, "--reference", secret / "reference.npz"))
    assert code == 1 and says in out and "versions" in out
    keeps_quiet(out, secret)
    with np.load(secret / "reference.npz") as found:
        quoted = json.loads(found["tokens"].tobytes())["lines"][0]
    assert len(quoted) > 5 and quoted not in out
