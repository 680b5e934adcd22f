"""Word alignments as lines: symmetrisation, the align command, and heads for other programs."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from core import analyse
from core.analysis.alignment import Gold, pharaoh
from core.atlas.atlas import AlignmentHeads, Atlas
from core.atlas.pharaoh import aligned, exports, grow_diag_final
from core.checkpoint.folder import load, read_card
from core.experiments.aligning import align
from core.record.capture import capture
from tests import small
from tests.app.atlases import atlas, origin
from tests.generated_language import ENTRIES, language, plant


def links(*pairs: str) -> frozenset:
    return frozenset(tuple(map(int, pair.split("-"))) for pair in pairs)


def test_grow_diag_final_on_an_example_worked_by_hand():
    """The example needs all three steps: intersect, grow and complete.

    The intersection is 0-0 2-2. Growing adds its neighbours 1-0, 1-1, 2-3 and 3-3, each with a word
    that has no link yet. The final step adds 5-6 and then 5-7, for the same reason. It leaves out
    0-3, because both words have links.
    """
    first = links("0-0", "1-1", "2-2", "2-3", "5-6")
    second = links("0-0", "1-0", "2-2", "3-3", "0-3", "5-7")
    expected = links("0-0", "1-0", "1-1", "2-2", "2-3", "3-3", "5-6", "5-7")
    assert grow_diag_final(first, second) == expected


def test_grow_diag_final_grows_only_along_neighbours():
    """0-3 is no neighbour of a link, so only the final step considers it.

    By then, 1-1, 2-2 and 3-3, each a neighbour of the link before, have linked both its words. The
    final step considers the links of `first` before those of `second`.
    """
    first, second = links("0-0", "0-3", "2-2"), links("0-0", "1-1", "3-3")
    assert grow_diag_final(first, second) == links("0-0", "1-1", "2-2", "3-3")
    assert grow_diag_final(links("0-0"), links("5-5")) == links("0-0", "5-5")
    turned = links("0-2", "4-0"), links("0-0", "4-2")
    assert grow_diag_final(*turned) == turned[0], "no intersection, and first covers all words"
    assert grow_diag_final(frozenset(), frozenset()) == frozenset()


def test_grow_diag_final_lies_between_intersection_and_union_and_covers_every_word():
    random = np.random.default_rng(0)
    for _ in range(200):
        sides = [
            frozenset((int(i), int(j)) for i, j in random.integers(0, 7, (random.integers(9), 2)))
            for _ in range(2)
        ]
        found = grow_diag_final(*sides)
        assert sides[0] & sides[1] <= found <= sides[0] | sides[1]
        for side in (0, 1):
            assert {link[side] for link in found} == {link[side] for link in sides[0] | sides[1]}


def test_lines_are_sorted_by_source_word():
    assert pharaoh(links("10-1", "2-0", "2-11", "0-3")) == "0-3 2-0 2-11 10-1"
    assert pharaoh(frozenset()) == ""


def test_the_reverse_network_links_the_other_way():
    """Both agree on 0-1; the reverse network's 2-1 (target, source) is the link 1-2."""
    asked = []

    def side(found: frozenset) -> Any:
        return SimpleNamespace(links=lambda pair: asked.append(pair) or found)

    forward, reverse = side(links("0-1")), side(links("1-0", "2-1"))
    assert list(aligned([("a b", "x y z")], forward, reverse)) == [(links("0-1", "1-2"), "")]
    assert asked == [("a b", "x y z"), ("x y z", "a b")]
    assert list(aligned([("a b", "x y z")], reverse)) == [(links("1-0", "2-1"), "")]


def found(*heads: tuple[int, int], **changes: str) -> AlignmentHeads:
    fields = {"reading": "output", "quantity": "weights"} | changes
    return AlignmentHeads(heads, **fields, aer=0.3, low=0.2, high=0.4)


def test_heads_are_exported_in_the_forms_of_other_programs():
    first = exports(found((3, 1), (3, 0)), 4)
    assert first == {
        "ctranslate2": {"alignment_layer": 3, "alignment_heads": 2},
        "ctranslate2_whisper": {"alignment_heads": [[3, 0], [3, 1]]},
        "opennmt": {"alignment_layer": 3, "alignment_heads": 2},
        "hugging_face": {"alignment_heads": [[3, 0], [3, 1]]},
        "notes": [
            "the heads align a word in the row that produces it, but Whisper in Hugging Face "
            "Transformers reads the row after, which takes it as input"
        ],
    }
    later = exports(found((2, 3), (2, 1), reading="input"), 4)
    assert later["opennmt"] == {
        "alignment_layer": 2,
        "alignment_heads": 2,
        "head_order": [1, 3, 0, 2],
    }
    assert [note.split(":")[0] for note in later["notes"]] == [
        "OpenNMT, fairseq and CTranslate2's translators average the first alignment_heads heads of "
        "the layer",
        "the heads align a word in the row that takes it as input, but OpenNMT, fairseq and "
        "CTranslate2 read the row before, which produces it",
    ]
    several = exports(found((0, 1), (1, 0), quantity="norms"), 2)
    assert several["opennmt"] is several["ctranslate2"] is None
    assert several["hugging_face"] == {"alignment_heads": [[0, 1], [1, 0]]}
    assert "2 layers" in several["notes"][0] and "norms" in several["notes"][1]


def test_heads_in_another_order_are_the_same_network():
    """What `head_order` promises: equal logits, and the chosen heads' maps come first."""
    _, network = small.pair(d_model=8, num_heads=4)
    source, target = small.batch(padding=False)
    order = exports(found((1, 3), (1, 1)), 4)["opennmt"]["head_order"]

    def run() -> tuple[torch.Tensor, torch.Tensor]:
        with capture(network) as captured, torch.no_grad():
            logits = network(source, target)
        cross = [call for call in captured.calls() if call.site.kind == "cross"]
        return logits, next(call for call in cross if call.site.layer == 1).weights

    logits, before_BHQK = run()
    site = network.decoder[1].cross_attention
    rows = torch.arange(8).view(4, 2)[order].flatten()
    with torch.no_grad():
        for part in (site.query, site.key, site.value):
            part.weight.copy_(part.weight[rows].clone())
            part.bias.copy_(part.bias[rows].clone())
        site.output.weight.copy_(site.output.weight[:, rows].clone())
    again, after_BHQK = run()
    assert torch.allclose(logits, again, atol=1e-12)
    assert torch.allclose(after_BHQK[:, :2], before_BHQK[:, [1, 3]], atol=1e-12)


def run(*arguments: object) -> None:
    parsed = analyse.parser().parse_args(["align", *map(str, arguments)])
    parsed.run(parsed)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    folder = tmp_path_factory.mktemp("planted")
    plant(folder / "forward-xx-yy", {(1, 0): range(ENTRIES)})
    plant(folder / "reverse-yy-xx", {(0, 1): range(ENTRIES)}, ("yy", "xx"), reverse=True)
    return folder


@pytest.fixture
def text(tmp_path):
    """20 pairs with their alignments, as files; line 3 is empty on both sides."""
    drawn = language().pairs(20)
    drawn[2] = ("", ""), Gold.parse("")
    sides = zip(*(pair for pair, _ in drawn), strict=True)
    for name, lines in zip(("src", "ref"), sides, strict=True):
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    gold = [" ".join(f"{i}-{j}" for i, j in sorted(right.sure)) for _, right in drawn]
    (tmp_path / "gold").write_text("\n".join(gold) + "\n")
    return tmp_path


def options(text, folder, *more: object) -> list[object]:
    files = ["--src", text / "src", "--ref", text / "ref", "--json", text / "found.json"]
    return ["--checkpoint", folder, *files, *more]


def test_align_writes_one_line_per_pair_and_the_heads(folders, text, capsys):
    with_gold = ["--gold", text / "gold"]
    run(*options(text, folders / "forward-xx-yy", *with_gold))
    printed = capsys.readouterr()
    assert printed.out == (text / "gold").read_text(), "the planted head makes no error"
    assert "line 3 is empty in the output: a side is empty" in printed.err.splitlines()
    result = json.loads((text / "found.json").read_text())
    assert list(result) == [
        *("checkpoint", "sentences", "heads", "reading", "quantity", "aer", "low", "high"),
        *("random_aer", "estimated_with"),
        *("ctranslate2", "ctranslate2_whisper", "opennmt", "hugging_face", "notes"),
    ]
    assert (result["sentences"], result["heads"], result["reading"]) == (20, [[1, 0]], "input")
    assert result["aer"] == result["low"] == result["high"] == 0
    pairs = list(
        zip(*((text / side).read_text().split("\n")[:20] for side in ("src", "ref")), strict=True)
    )
    gold = [Gold.parse(line) for line in printed.out.split("\n")[:20]]
    rows = align(load(folders / "forward-xx-yy"), pairs[1::2], gold[1::2])
    singles = [
        r.score.aer for r in rows if r.quantity == "weights" and None not in (r.layer, r.head)
    ]
    assert result["random_aer"] == pytest.approx(np.mean(singles)) and len(singles) == 8
    assert result["estimated_with"] == "gold"
    assert "alignment error rate 0.000, 95 % CI [0.000, 0.000]; of a random head" in printed.err
    assert result["opennmt"] == {"alignment_layer": 1, "alignment_heads": 1}


def test_align_combines_both_directions(folders, text, capsys):
    """Each untranslated source word gets one link, a wrong one, from the reverse network."""
    gold = [Gold.parse(line) for line in (text / "gold").read_text().split("\n")[:20]]
    reverse = ["--reverse", folders / "reverse-yy-xx", "--gold", text / "gold"]
    run(*options(text, folders / "forward-xx-yy", *reverse))
    lines = [links(*line.split()) for line in capsys.readouterr().out.split("\n")[:20]]
    sources = (text / "src").read_text().split("\n")
    for source, line, right in zip(sources, lines, gold, strict=False):
        words = range(len(source.split()))
        assert {i for i, _ in line} == set(words) and line >= right.sure
        assert len(line - right.sure) == len(set(words) - {i for i, _ in right.sure})
    result = json.loads((text / "found.json").read_text())
    assert (result["heads"], result["reverse_heads"]) == ([[1, 0]], [[0, 1]])
    odd = [(line, right.sure) for line, right in zip(lines, gold, strict=True)][1::2]
    both, made, sure = (
        sum(len(part) for part in parts)
        for parts in ([a & s for a, s in odd], [a for a, _ in odd], [s for _, s in odd])
    )
    symmetrised = result["symmetrised"]
    assert symmetrised["aer"] == pytest.approx(1 - 2 * both / (made + sure)) and made > sure
    assert symmetrised["precision"] == pytest.approx(both / made) and symmetrised["recall"] == 1
    assert symmetrised["low"] < symmetrised["aer"] < symmetrised["high"]
    with pytest.raises(ValueError, match="translates xx-yy: the reverse of xx-yy is needed"):
        wrong = ["--reverse", folders / "forward-xx-yy", "--gold", text / "gold"]
        run(*options(text, folders / "forward-xx-yy", *wrong))


def test_without_gold_and_atlases_the_heads_are_those_that_agree(folders, text, capsys):
    reverse = ["--reverse", folders / "reverse-yy-xx"]
    run(*options(text, folders / "forward-xx-yy", *reverse))
    printed, result = capsys.readouterr(), json.loads((text / "found.json").read_text())
    assert (result["heads"], result["reverse_heads"]) == ([[1, 0]], [[0, 1]])
    assert result["estimated_with"] == "reverse" and result["aer"] < result["random_aer"]
    assert "rate with the links of --reverse as gold 0." in printed.err
    run(*options(text, folders / "forward-xx-yy", *reverse, "--gold", text / "gold"))
    assert printed.out == capsys.readouterr().out


def test_align_can_choose_heads_of_one_layer_and_by_norms(folders, text):
    folder = folders / "two-xx-yy"
    plant(folder, {(0, 1): range(0, ENTRIES, 2), (1, 0): range(1, ENTRIES, 2)})

    def chosen(*more: str) -> dict:
        run(*options(text, folder, "--gold", text / "gold", *more))
        return json.loads((text / "found.json").read_text())

    both = chosen("--quantity", "norms")
    assert sorted(both["heads"]) == [[0, 1], [1, 0]] and both["aer"] == 0
    assert both["quantity"] == "norms" and both["opennmt"] is None
    one = chosen("--one-layer")
    assert len({layer for layer, _ in one["heads"]}) == 1 and one["aer"] > 0
    assert one["quantity"] == "weights" and one["opennmt"]["alignment_heads"] == len(one["heads"])


def test_align_reads_the_heads_from_the_atlas(folders, text, capsys):
    folder = folders / "forward-xx-yy"
    with pytest.raises(ValueError, match="has no atlas with alignment heads: pass --gold"):
        run(*options(text, folder))

    def write(sha256: str) -> Atlas:
        chosen = AlignmentHeads(((1, 0), (1, 1)), "input", "weights", 0.25, 0.125, 0.5)
        made: Atlas = atlas(
            layers=2, heads=2, origin=origin(weights_sha256=sha256), alignment_heads=chosen
        )
        (folder / "atlas.npz").write_bytes(made.to_bytes())
        return made

    made = write(read_card(folder).weights_sha256)
    try:
        run(*options(text, folder))
        result = json.loads((text / "found.json").read_text())
        assert capsys.readouterr().out == (text / "gold").read_text()
        assert result["heads"] == [[1, 0], [1, 1]] and result["opennmt"]["alignment_heads"] == 2
        assert (result["aer"], result["low"], result["high"]) == (0.25, 0.125, 0.5)
        weights = made.arrays["aer"][:, 0, :2, :2, 0]
        assert result["random_aer"] == pytest.approx(weights.mean(), abs=1e-4)
        assert result["estimated_with"] == "atlas"
        write("0" * 64)
        with pytest.raises(ValueError, match=r"atlas.npz belongs to other weights \(00000000"):
            run(*options(text, folder))
    finally:
        (folder / "atlas.npz").unlink()


def test_a_line_that_is_too_long_leaves_the_others_aligned(folders, text, capsys):
    """The line is empty in the output; gold that does not fit gives a one-line error."""
    folder, lines = folders / "forward-xx-yy", (text / "gold").read_text().split("\n")
    sources = (text / "src").read_text().split("\n")
    (text / "src").write_text("\n".join(["ba " * 70, *sources[1:]]))
    run(*options(text, folder, "--gold", text / "gold"))
    printed = capsys.readouterr()
    assert printed.out.split("\n")[:3] == ["", lines[1], ""]
    assert "line 1 is empty in the output: 71 tokens with <eos>: the limit is 64" in printed.err
    (text / "gold").write_text("\n".join([*lines[:4], "99-0", *lines[5:]]))
    with pytest.raises(ValueError, match="sentence 5: its alignment links word 99"):
        run(*options(text, folder, "--gold", text / "gold"))
    (text / "gold").write_text("0-0\n\n\n0-0\n" + 16 * "\n")
    with pytest.raises(ValueError, match="gold is too small: the heads are chosen on one half"):
        run(*options(text, folder, "--gold", text / "gold"))
    (text / "gold").write_text("0-0\n")
    with pytest.raises(ValueError, match="20 sentence pairs and 1 alignments"):
        run(*options(text, folder, "--gold", text / "gold"))
