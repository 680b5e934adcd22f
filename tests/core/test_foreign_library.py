"""Networks that transformers made and saved give transformers' numbers after conversion."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

pytest.importorskip("transformers")

from transformers import (
    MarianConfig,
    MarianMTModel,
    PegasusConfig,
    PegasusForConditionalGeneration,
)

from core.checkpoint.folder import load
from core.config import DecodeConfig
from core.foreign.family import Options
from core.foreign.importing import import_network
from core.foreign.reference import script
from core.search.many import translate_ids
from tests.core.saved_folders import TEXTS, settings, tokenizers, unigram

ROOT = Path(__file__).parents[2]
CLASSES = {
    "marian": (MarianConfig, MarianMTModel),
    "pegasus": (PegasusConfig, PegasusForConditionalGeneration),
}


def saved(folder: Path, family: str, activation: str, **changes) -> Path:
    """Let transformers make and save a network whose parameters all differ from 0 and 1."""
    folder.mkdir()
    size, shard = len(tokenizers(folder)), changes.pop("shard", "5GB")
    values = settings(family, size, activation, **changes)
    del values["model_type"], values["architectures"]
    kind, model = CLASSES[family]
    torch.manual_seed(11)
    network = model(kind(**values)).eval()
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            if "embed_positions" not in name:
                parameter.add_(torch.randn_like(parameter) * 0.2)
        network.final_logits_bias.normal_()
    network.save_pretrained(folder, max_shard_size=shard)
    return folder


@pytest.mark.parametrize("activation", ["relu", "swish"])
@pytest.mark.parametrize("family", CLASSES)
def test_a_random_network_gives_the_originals_numbers(family, activation, tmp_path):
    folder = saved(tmp_path / "theirs", family, activation)
    out = tmp_path / "mine-de-en"
    result = import_network(family, folder, out, Options(languages=("de", "en")))
    compared = {one.what: one for one in result.imported.compared}
    for what in ("attention maps", "logits", "log-probabilities", "logits of single steps"):
        assert compared[f"{what}, float64"].max_abs_diff < 1e-12
        assert compared[f"{what}, float32"].max_abs_diff < 1e-4
    for what in ("greedy ids, float64", "greedy ids, float32", "tokens of 200 source lines"):
        assert compared[what].max_abs_diff == 0
    assert result.imported.not_proven == ()
    agrees_with_the_library(out, folder, family)


def agrees_with_the_library(out: Path, folder: Path, family: str) -> None:
    """Compare logits without the converter's comparison: ids are mapped here, by vocab.json."""
    pieces = json.loads((folder / "vocab.json").read_text())
    loaded = load(out)
    ours = [loaded.target_tokenizer.token(id).piece for id in range(loaded.target_tokenizer.size)]
    pad = pieces["<pad>"]
    special = {"<pad>": -1, "<bos>": pad, "<eos>": 0, "<unk>": 1}
    rows = [special.get(piece, pieces.get(piece)) for piece in ours]
    theirs = CLASSES[family][1].from_pretrained(folder).eval()
    draw = torch.Generator().manual_seed(2)
    source, target = (torch.randint(4, len(ours), (3, 9), generator=draw) for _ in range(2))
    source[:, -1], target[:, 0] = 2, 1
    with torch.no_grad():
        expected = theirs(
            input_ids=torch.tensor(rows)[source], decoder_input_ids=torch.tensor(rows)[target]
        ).logits
        got = loaded.model(source, target)
    assert rows[0] == -1 and (got[..., 0] < -9_000).all()
    assert torch.allclose(got[..., 1:], expected[..., rows[1:]], atol=2e-5)


@pytest.mark.parametrize("family", CLASSES)
def test_an_untied_network_has_three_tables(family, tmp_path):
    """And settings of the original's search change no greedy ids of the comparison."""
    changes = {"tie_word_embeddings": False, "repetition_penalty": 3.0, "no_repeat_ngram_size": 1}
    folder = saved(tmp_path / "theirs", family, "relu", **changes)
    out = tmp_path / "mine-de-en"
    result = import_network(family, folder, out, Options(languages=("de", "en")))
    assert result.imported.passed
    model = load(out).card.model
    assert not model.share_embeddings and not model.tie_classifier


def test_a_folder_that_the_library_cannot_run_is_named(tmp_path):
    folder = saved(tmp_path / "theirs", "marian", "swish")
    (folder / "tokenizer_config.json").write_text("[1]")
    with pytest.raises(ValueError, match="transformers cannot run .*theirs .*--reference") as error:
        import_network("marian", folder, tmp_path / "x-de-en", Options(languages=("de", "en")))
    assert "\n" not in str(error.value)


def test_a_sharded_network_is_read(tmp_path):
    folder = saved(tmp_path / "theirs", "marian", "swish", shard="20KB")
    assert len(list(folder.glob("*.safetensors"))) > 1
    out = tmp_path / "mine-de-en"
    result = import_network("marian", folder, out, Options(languages=("de", "en")))
    assert result.imported.passed


def test_two_vocabularies_are_read(tmp_path):
    """Newer OPUS-MT networks have separate vocabularies and tables."""
    folder = tmp_path / "theirs"
    folder.mkdir()
    sizes = {}
    for side, file in (("source", "vocab.json"), ("target", "target_vocab.json")):
        model = unigram(TEXTS[side], 50 if side == "source" else 45)
        (folder / f"{side}.spm").write_bytes(model)
        import sentencepiece

        processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        found = [processor.id_to_piece(id) for id in range(3, processor.get_piece_size())]
        pieces = ["</s>", "<unk>", "<pad>", *found]
        (folder / file).write_text(json.dumps({piece: id for id, piece in enumerate(pieces)}))
        sizes[side] = len(pieces)
    values = settings("marian", sizes["source"], "swish")
    values |= {
        "decoder_vocab_size": sizes["target"],
        "share_encoder_decoder_embeddings": False,
        "pad_token_id": 2,
        "decoder_start_token_id": 2,
    }
    del values["model_type"], values["architectures"]
    torch.manual_seed(1)
    network = MarianMTModel(MarianConfig(**values)).eval()
    network.save_pretrained(folder)
    (folder / "tokenizer_config.json").write_text('{"separate_vocabs": true}')
    out = tmp_path / "mine-de-en"
    result = import_network("marian", folder, out, Options(languages=("de", "en")))
    assert result.imported.passed
    config = load(out).card.model
    assert (config.source_vocab_size, config.target_vocab_size) == (
        sizes["source"] + 1,
        sizes["target"] + 1,
    )


def test_the_script_gives_the_same_differences_as_the_library(tmp_path):
    """A file that the script wrote, perhaps on another machine, takes transformers' place."""
    folder = saved(tmp_path / "theirs", "marian", "swish")
    (tmp_path / "make.py").write_text(script("marian"))
    (tmp_path / "lines.txt").write_text("\n".join(TEXTS["source"]))
    subprocess.run(
        [sys.executable, "make.py", str(folder), "lines.txt"], cwd=tmp_path, check=True, timeout=300
    )
    given = import_network(
        "marian",
        folder,
        tmp_path / "a-de-en",
        Options(languages=("de", "en")),
        tmp_path / "reference.npz",
    )
    found = import_network("marian", folder, tmp_path / "b-de-en", Options(languages=("de", "en")))
    differences = [
        {one.what: one.max_abs_diff for one in result.imported.compared if "tokens" not in one.what}
        for result in (given, found)
    ]
    assert differences[0] == differences[1] and len(differences[0]) == 11


CAPTIONS = [
    f"{who} {what} {where}."
    for who in ("Ein Mann", "Zwei junge Frauen", "Ein kleines Mädchen", "Der braune Hund")
    for what in ("steht", "sitzt", "spielt mit einem Ball", "läuft", "springt")
    for where in ("auf der Straße", "vor einem roten Haus", "im Wasser am Strand")
]


@pytest.mark.parametrize("name", ["captions-de-en", "scratch-de-en"])
def test_a_shipped_network_translates_as_before_after_a_round_trip(name, tmp_path):
    """A shipped network, saved by transformers as Pegasus, translates 60 captions as before."""
    shipped = load(ROOT / "checkpoints" / name)
    folder = saved_as_pegasus(shipped, tmp_path / "theirs")
    out = tmp_path / "back-de-en"
    result = import_network("pegasus", folder, out, Options(languages=("de", "en")))
    different = {one.what: one.max_abs_diff for one in result.imported.compared}
    assert different["greedy ids, float32"] == 0 and different["logits, float64"] < 1e-9
    back = load(out)
    encoded = [[t.id for t in shipped.source_tokenizer.encode(line)] for line in CAPTIONS]
    assert len(encoded) == 60
    for beam in (1, 5):
        before, after = (
            translate_ids(one.model, encoded, DecodeConfig(beam=beam), "cpu")
            for one in (shipped, back)
        )
        assert [best.ids for best, *_ in before] == [best.ids for best, *_ in after]


THEIRS = {
    "self_attention.": "self_attn.",
    "cross_attention.": "encoder_attn.",
    "query.": "q_proj.",
    "key.": "k_proj.",
    "value.": "v_proj.",
    "output.": "out_proj.",
    "feed_forward.inner.": "fc1.",
    "feed_forward.outer.": "fc2.",
    "norm1.": "self_attn_layer_norm.",
    "norm3.": "final_layer_norm.",
    "encoder_norm.": "encoder.layer_norm.",
    "decoder_norm.": "decoder.layer_norm.",
}


def saved_as_pegasus(shipped, folder: Path) -> Path:
    """Save a shipped network as a Pegasus network of transformers, which puts all sines first."""
    ours = shipped.card.model
    width = ours.d_model
    theirs = PegasusForConditionalGeneration(
        PegasusConfig(
            vocab_size=ours.target_vocab_size,
            d_model=width,
            encoder_layers=ours.num_encoder_layers,
            decoder_layers=ours.num_decoder_layers,
            encoder_attention_heads=ours.num_heads,
            decoder_attention_heads=ours.num_heads,
            encoder_ffn_dim=ours.dim_feedforward,
            decoder_ffn_dim=ours.dim_feedforward,
            activation_function="relu",
            max_position_embeddings=ours.max_length,
            scale_embedding=True,
            pad_token_id=0,
            eos_token_id=2,
            decoder_start_token_id=1,
            forced_eos_token_id=None,
        )
    ).eval()
    halves = [*range(0, width, 2), *range(1, width, 2)]  # sines are our even features
    state = theirs.state_dict()
    filled = {"model.shared.weight"}
    with torch.no_grad():
        state["model.shared.weight"].copy_(shipped.model.embeddings.target_weight[:, halves])
        for name, value in shipped.model.named_parameters():
            side, _, _ = name.partition(".")
            if side == "embeddings":
                continue
            their = name if "_" in side else name.replace(f"{side}.", f"{side}.layers.", 1)
            for mine, new in THEIRS.items():
                their = their.replace(mine, new)
            middle = "final" if side == "encoder" else "encoder_attn"
            their = "model." + their.replace("norm2.", f"{middle}_layer_norm.")
            if "norm" in their or "out_proj" in their or "fc2" in their:
                value = value[halves]
            elif value.dim() == 2:
                value = value[:, halves]
            state[their].copy_(value)
            filled.add(their)
    left = {name for name in state if not name.endswith(("embed_tokens.weight", "lm_head.weight"))}
    assert {name for name in left - filled if "embed_positions" not in name} == {
        "final_logits_bias"
    }
    theirs.save_pretrained(folder)
    tokens = [shipped.target_tokenizer.token(id).piece for id in range(ours.target_vocab_size)]
    ids = {piece: id for id, piece in enumerate(["<pad>", "<s>", "</s>", *tokens[3:]])}
    (folder / "vocab.json").write_text(json.dumps(ids))
    for side, texts in TEXTS.items():  # not the network's pieces: ids are compared, not tokens
        (folder / f"{side}.spm").write_bytes(unigram(texts, 60))
    return folder
