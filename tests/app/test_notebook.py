"""A page saved as a notebook: its script computes the page's numbers, by the public API alone."""

from __future__ import annotations

import ast
import json
import re
from typing import Any

import numpy as np
import pytest
import streamlit as st

import core
from app.export import notebook as files
from app.export.notebook import notebook, script
from tests.app.page_checks import ROOT, translator
from tests.app.rendered import Rendered, array, render, unpacked

SNOW = "Ein Hund läuft durch den Schnee."
HOSTILE = 'Ein "Hund" läuft \'nicht\' \\n\\ durch """ 🐕 \u202e{den} # Schnee. # %% x'
PAGES = sorted(file.stem for file in (ROOT / "app/export/notebooks").glob("*.py"))


@pytest.fixture
def saved(monkeypatch) -> dict[str, str]:
    """The text of each file that a page offers, by the button's key."""
    texts: dict[str, str] = {}

    def button(label: str, data: Any, *, key: str, **_: Any) -> None:
        texts[key] = data

    monkeypatch.setattr(st, "download_button", button)
    monkeypatch.setattr(core, "load", translator)
    return texts


def run(saved: dict[str, str]) -> dict[str, Any]:
    """Run a saved script in an empty namespace, and check that the notebook has the same cells."""
    made = json.loads(saved["save_notebook"])
    assert (made["nbformat"], made["nbformat_minor"]) == (4, 5)
    ids = [cell["id"] for cell in made["cells"]]
    assert len(ids) == len(set(ids)) and all(re.fullmatch(r"[\w-]{1,64}", one) for one in ids)
    code = [c for c in made["cells"] if c["cell_type"] == "code"]
    assert all((c["execution_count"], c["outputs"], c["metadata"]) == (None, [], {}) for c in code)
    tree = ast.parse(saved["save_script"])
    cells = ast.parse("\n".join("".join(cell["source"]) for cell in code))
    assert ast.dump(ast.Module(tree.body[1:], [])) == ast.dump(cells)  # all but the docstring
    names: dict[str, Any] = {}
    exec(compile(tree, "saved", "exec"), names)
    return names


def rows(page: Rendered, key: str) -> list[float]:
    return [row.value for row in page.charts[key].rows()]


@pytest.mark.parametrize("name", PAGES)
def test_scripts_use_the_public_api_alone(name):
    tree = ast.parse(script(name, {}))
    imported = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    assert {ast.unparse(node) for node in imported} <= {
        "import core",
        "import numpy as np",
        "from app.export import show",
    }
    of_core = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "core"
    }
    assert of_core <= set(core.__all__)
    private = [n for n in ast.walk(tree) if isinstance(n, ast.Attribute) and n.attr[0] == "_"]
    assert not private


@pytest.mark.parametrize(
    ("source", "search", "edits"),
    [(SNOW, "beam", "off.cross.2.1~cut.cross.1.0.2.1"), (HOSTILE, "greedy", "")],
)
def test_translate(saved, source, search, edits):
    link = {"kind": "decoder", "layer": "1", "head": "mean"}
    page = render("", "take_away", source=source, search=search, edits=edits, **link)
    names = run(saved)
    header = unpacked(page.payload("explorer"))[0]
    assert names["SOURCE"] == source
    assert names["after"].id == header["sentence"]
    if edits:
        assert header["what_if"]["text"] == names["EDITS"] == edits
        assert header["what_if"]["before"] == names["record"].log_prob
        np.testing.assert_allclose(names["change"], header["what_if"]["change"], atol=1e-6)
        again = unpacked(page.payload("answers_explorer_again"))[0]
        assert again["again"]["log_prob"] == names["again"].log_prob
    assert names["weights"].shape == names["after"].decoder.shape[2:]
    np.testing.assert_array_equal(names["weights"], names["after"].decoder[1].mean(0))


def test_a_given_translation_is_given_to_the_script(saved):
    render("", "take_away", source=SNOW, target='The dog "runs".')
    assert run(saved)["record"].translation == 'The dog "runs".'


def test_step_by_step(saved):
    page = render("steps", source=SNOW, edits="off.cross.2.1", forced="4")
    names = run(saved)
    tree = page.payload("beam_tree")
    assert (names["EDITS"], names["PREFIX"]) == ("off.cross.2.1", (4,))
    nodes = [[node[at] for at in (4, 5, 6, 7)] for node in tree["nodes"]]
    ours = names["written"].tree.nodes
    assert nodes == [[node.log_prob, node.total, node.score, node.status] for node in ours]
    (figure,) = page.figure("step_heads")["data"]
    weights = names["rows"].reshape(-1, names["rows"].shape[-1])
    np.testing.assert_allclose(array(figure["z"])[:-1], weights, atol=1e-6)  # the last: their mean


def test_inside_a_head(saved):
    link = {"kind": "encoder", "layer": "1", "head": "2", "q": "3", "k": "1"}
    page = render("head", "open_score", source=SNOW, edits="off.cross.2.1", **link)
    names = run(saved)
    assert names["record"].edits == core.Edits()  # the page ignores them
    said = page.texts("head_sentence", "text")[0]
    assert names["weight"] == pytest.approx(float(said.split()[-1].rstrip(".")), abs=5e-5)
    terms = [term for *_, term in names["split"].largest(8)]
    np.testing.assert_allclose(rows(page, "why_terms")[:8], terms)
    grid = np.array(rows(page, "why_score"))
    np.testing.assert_allclose(grid, names["sums"].ravel())


@pytest.mark.parametrize(
    ("beside", "more"),
    [
        ("sentence", {"second_source": 'Ein "Hund" läuft.'}),
        ("model", {}),
        ("edits", {"edits": "off.encoder.0.1"}),
    ],
)
def test_two_at_once(saved, beside, more):
    page = render("together", "full_passes", source=SNOW, beside=beside, **more)
    names = run(saved)
    for key, name in (("first_of_two", "record"), ("second_explorer", "second")):
        assert unpacked(page.payload(key))[0]["sentence"] == names[name].id


def test_copies_and_pushes(saved):
    woman = "Eine Frau liest ein Buch."
    page = render("together", source=woman, second_source="Ein Mann liest ein Buch.", two="copy")
    names = run(saved)
    shown = page.payload("copied_states")
    assert names["EDITS"].count("copy.encoder") == 1
    assert shown["after_text"] == names["after"].translation
    pictures = unpacked(page.payload("answers_copied_states_pictures"))[0]
    np.testing.assert_allclose(pictures["cells"], names["patched"].encoder)
    np.testing.assert_allclose(pictures["heads"]["cross"], names["patched"].heads["cross"])
    shown = render("together", source=woman, two="push").payload("pushed_state")
    names = run(saved)
    steered, curve = names["steered"], names["curve"]
    written = [steered.pushed.translation, steered.random.translation]
    assert [shown["after"], shown["random"]] == written
    np.testing.assert_allclose(shown["curve"]["new"], curve.new)


def test_ask_why(saved):
    source = "Ein Hund läuft."
    sections = [f"open_{name}" for name in "pairs choice lens decoder_lens sources knew".split()]
    link = {"source": source, "search": "greedy", "why_for": "1", "why_pairs": "decoder"}
    page = render("why", *sections, **link)
    given = {"FOR": "1", "PAIRS": '"decoder"'}
    for part in ("other", "knew"):
        given |= page.payload(f"notebook_choices_{part}")["values"]
    choices = page.payload("notebook_choices")["choices"]
    assert choices["why_for"] == ["FOR", choices["why_step"][1]]
    made = saved["save_script"]
    for name, value in given.items():
        made, count = re.subn(rf"^{name} = [^#\n]*", f"{name} = {value}  ", made, flags=re.M)
        assert count == 1  # as the script does in a browser, with the link's choices
    names = run({"save_script": made, "save_notebook": notebook(made)})
    heads = [change for *_, change in names["ranked"]][:12]
    np.testing.assert_allclose(rows(page, "why_heads"), heads)
    pairs = names["pairs"]
    assert pairs.kind == "decoder"
    np.testing.assert_allclose(rows(page, "why_pairs_map"), pairs.beyond().ravel(), atol=1e-9)
    terms = [term for _, term in names["choice"].largest(8)]
    np.testing.assert_allclose(rows(page, "why_terms")[:8], terms)
    for key, lens in (("why_lens", "lens"), ("why_decoder_lens", "decoder_lens")):
        np.testing.assert_allclose(rows(page, key), names[lens].probabilities.ravel())
    ranks = names["knew"].encoder.ranks[:, :-1, 0]
    np.testing.assert_allclose(rows(page, "why_knew_encoder"), 1 / ranks.ravel())
    token = names["TOKEN"]
    np.testing.assert_allclose(rows(page, "why_shapley"), names["shapley"].values[token])


def test_a_checkpoint_elsewhere_is_named_by_its_path(tmp_path):
    assert files.name_of(ROOT / "checkpoints/scratch-de-en") == "scratch-de-en"
    assert files.name_of(tmp_path) == str(tmp_path.resolve())


def test_values_are_quoted_and_stay_in_their_line():
    text = script("translate", {"SOURCE": HOSTILE, "TARGET": 'a\nMODEL = "x"\n# %% b'})
    names: dict[str, Any] = {}
    cell = notebook(text)
    exec("".join(json.loads(cell)["cells"][2]["source"]), names)
    assert (names["SOURCE"], names["TARGET"]) == (HOSTILE, 'a\nMODEL = "x"\n# %% b')
    assert names["MODEL"] == "scratch-de-en"
    with pytest.raises(KeyError):
        script("translate", {"NOTHING": 1})
