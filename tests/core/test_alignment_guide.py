"""The guide to word alignments: its commands and its lines of Python run as they are written."""

import json
import re
import shlex
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.core import saved_folders
from tests.generated_language import language

GUIDE = (Path(__file__).parents[2] / "core/atlas/README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", GUIDE, re.M | re.S)
COMMANDS = [
    line for name, block in BLOCKS if not name for line in block.splitlines() if line.strip()
]
DIRECTIONS = ("de-en", "en-de")


def run_guide(commands: list[str], lines) -> list[str]:
    """Run commands in the current folder; return what each wrote to standard error."""
    said = []
    for line in commands:
        python, option, module, *arguments = shlex.split(line)
        assert (python, option) == ("python", "-m")
        into = None
        if ">" in arguments:
            *arguments, _, into = arguments
        code, out, error = lines(import_module(module), *arguments)
        assert code == 0, error[-500:]
        if into:
            Path(into).write_text(out)
        said.append(error)
    return said


def check_files(words: list[list[int]], chosen_with: str) -> dict:
    """Check the files that `align` wrote for texts of these numbers of words; return the JSON."""
    linked = Path("text.align").read_text().split("\n")[:-1]
    assert len(linked) == len(words)
    for line, (of_source, of_target) in zip(linked, words, strict=True):
        pairs = [tuple(map(int, link.split("-"))) for link in line.split(" ")]
        assert {i for i, _ in pairs} == set(range(of_source))  # grow-diag-final links all words
        assert {j for _, j in pairs} == set(range(of_target))
    found = json.loads(Path("heads.json").read_text())
    assert found["estimated_with"] == chosen_with and 0 <= found["random_aer"] <= 1
    fields = "aer low high random_aer reading notes hugging_face ctranslate2 opennmt".split()
    for name in [*fields, *["symmetrised"] * (chosen_with == "gold")]:
        assert (f"`{name}`" in GUIDE or f'`"{name}": ' in GUIDE) and name in found
    return found


def write_text(pairs: list[tuple[str, str]], gold: list[str]) -> list[list[int]]:
    """Write the guide's texts; return the numbers of words of each pair, parted by blanks."""
    for name, written in zip(
        ("text.de", "text.en", "text.gold"), (*zip(*pairs, strict=True), gold), strict=True
    ):
        Path(name).write_text("\n".join(written) + "\n", encoding="utf-8")
    return [[len(side.split()) for side in pair] for pair in pairs]


def test_three_commands_lead_from_folders_to_alignments(lines, opus, tmp_path, monkeypatch):
    """The networks are random, so that only the form of the output can be checked."""
    monkeypatch.chdir(tmp_path)
    for direction in DIRECTIONS:
        Path(f"opus-mt-{direction}").symlink_to(opus)
    texts = zip(*saved_folders.TEXTS.values(), strict=True)
    words = write_text([*texts] * 3, ["0-0", "0-0 1?1", "", "1-1", "2-2", ""])
    assert len(COMMANDS) == 4 and [c.split()[2] for c in COMMANDS[:3]] == [
        *("core.convert", "core.convert", "core.analyse"),
    ]
    said = run_guide(COMMANDS[:3], lines)[-1]
    found = check_files(words, "reverse")
    assert f"as gold {found['aer']:.3f}, 95 % CI" in said
    assert f"of a random head {found['random_aer']:.3f}" in said
    run_guide(COMMANDS[3:], lines)
    check_files(words, "gold")


def save_trained(folder: Path, pairs: list[tuple[str, str]], steps: int) -> None:
    """Let transformers train and save a Marian network and its vocabulary."""
    import sentencepiece
    from transformers import MarianConfig, MarianMTModel

    folder.mkdir()
    ids, pieces = [], {"</s>": 0, "<unk>": 1}
    for side, texts in zip(("source", "target"), zip(*pairs, strict=True), strict=True):
        model = saved_folders.unigram(list(texts[:100]), 80)
        (folder / f"{side}.spm").write_bytes(model)
        split = sentencepiece.SentencePieceProcessor(model_proto=model)
        for id in range(3, split.get_piece_size()):
            pieces.setdefault(split.id_to_piece(id), len(pieces))
        ids.append([[*(pieces[p] for p in split.encode(t, out_type=str)), 0] for t in texts])
    pad = pieces["<pad>"] = len(pieces)
    (folder / "vocab.json").write_text(json.dumps(pieces))
    size = {"d_model": 48, "encoder_layers": 1, "decoder_layers": 2, "decoder_ffn_dim": 96}
    values = saved_folders.settings("marian", len(pieces), "swish", **size)
    torch.manual_seed(0)
    network = MarianMTModel(MarianConfig(**values, dropout=0.0)).train()
    optimiser = torch.optim.AdamW(network.parameters(), lr=4e-3)
    draw = torch.Generator().manual_seed(1)
    for step in range(steps):
        for group in optimiser.param_groups:
            group["lr"] = 4e-3 * min(1, step / 30, (steps - step) / 60)
        chosen = torch.randint(0, len(pairs), (32,), generator=draw).tolist()
        source, labels = (
            torch.nn.utils.rnn.pad_sequence(
                [torch.tensor(of_side[i]) for i in chosen], True, padding_value=fill
            )
            for of_side, fill in zip(ids, (pad, -100), strict=True)
        )
        loss = network(input_ids=source, attention_mask=(source != pad).long(), labels=labels).loss
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimiser.step()
    network.eval().save_pretrained(folder)


def test_a_network_that_the_library_trained_is_aligned(lines, tmp_path, monkeypatch):
    """The agreeing heads find the language's links better than a random head does."""
    pytest.importorskip("transformers")
    monkeypatch.chdir(tmp_path)
    torch.set_num_threads(1)
    drawn = language().pairs(1_060)
    known = [pair for pair, _ in drawn[:1_000]]
    for direction, pairs in zip(DIRECTIONS, (known, [p[::-1] for p in known]), strict=True):
        save_trained(Path(f"opus-mt-{direction}"), pairs, 700)
    held_out = drawn[1_000:]
    gold = [" ".join(f"{i}-{j}" for i, j in sorted(right.sure)) for _, right in held_out]
    words = write_text([pair for pair, _ in held_out], gold)
    run_guide(COMMANDS[:3], lines)
    agreed = check_files(words, "reverse")
    assert agreed["high"] < agreed["random_aer"]
    run_guide(COMMANDS[3:], lines)
    by_gold = check_files(words, "gold")
    assert by_gold["high"] < by_gold["random_aer"]
    assert agreed["heads"][0] in by_gold["heads"]


def test_the_rows_of_generate_are_those_that_the_guide_names():
    """A row depends on the token that it is fed and on none after it."""
    transformers = pytest.importorskip("transformers")
    values = saved_folders.settings("marian", 40, "swish", forced_eos_token_id=None)
    torch.manual_seed(3)
    config = transformers.MarianConfig(**values, attn_implementation="eager")
    model = transformers.MarianMTModel(config).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "embed_positions" not in name:
                parameter.normal_(0, 0.5)
    model.generation_config.max_new_tokens = 6
    names = {
        "model": model,
        "torch": torch,
        "inputs": {"input_ids": torch.tensor([[5, 6, 7, 8, 0]])},
    }
    (block,) = [block for name, block in BLOCKS if name == "python"]
    exec(block, names)
    ids, layer, head, t = (names[name] for name in ("ids", "layer", "head", "t"))
    assert ids[0] == config.decoder_start_token_id and len(names["rows"]) == len(ids) - 1 > t

    def forward(fed: torch.Tensor) -> tuple[np.ndarray, torch.Tensor]:
        with torch.no_grad():
            out = model(**names["inputs"], decoder_input_ids=fed[None], output_attentions=True)
        return out.cross_attentions[layer][0, head].numpy(), out.logits[0]

    maps, logits = forward(ids[:-1])
    assert np.allclose(names["produces"], maps[t - 1], atol=1e-6)
    assert np.allclose(names["is_fed"], maps[t], atol=1e-6)
    assert logits[t - 1].argmax() == ids[t]
    other = ids[:-1].clone()
    other[t] = (other[t] + 1) % 39
    changed = ~np.isclose(forward(other)[0], maps, atol=1e-6).all(-1)
    assert changed.argmax() == t
