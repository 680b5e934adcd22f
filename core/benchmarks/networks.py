"""Networks with a fixed output length, and their inputs, for benchmarks."""

import dataclasses
import random
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from core.accelerate.network import accelerate
from core.checkpoint.folder import load
from core.checkpoint.imported import Imported
from core.config import ModelConfig
from core.data.batches import pad
from core.model.baseline import Baseline, copy_weights
from core.model.build import build
from core.model.transformer import Transformer
from core.text.tokenizer import BOS, EOS, PAD, Tokenizer

NEVER = -10_000.0  # logit bias that prevents <eos>, <pad> and <bos>
_SMALL = ModelConfig(
    source_vocab_size=8000,
    target_vocab_size=8000,
    d_model=128,
    num_heads=4,
    num_encoder_layers=4,
    num_decoder_layers=4,
    dim_feedforward=256,
    share_embeddings=True,
    tie_classifier=True,
    final_norm=False,
)
_GERMAN = (  # phrases; a sentence takes one from each group
    ("Ein Mann", "Eine Frau", "Ein Junge", "Ein Hund", "Zwei Kinder", "Drei Leute"),
    ("steht", "sitzt", "spielt", "geht", "wartet", "liegt"),
    ("im Park", "auf der Straße", "am Strand", "vor einem Haus", "in einem Zimmer"),
    ("und lacht", "und liest ein Buch", "mit einem Ball", "in der Sonne", "und schaut zu"),
)
_ENGLISH = (
    ("A man", "A woman", "A boy", "A dog", "Two children", "Three people"),
    ("stands", "sits", "plays", "walks", "waits", "lies"),
    ("in the park", "on the street", "at the beach", "in front of a house", "in a room"),
    ("and laughs", "and reads a book", "with a ball", "in the sun", "and looks on"),
)


@dataclass(frozen=True)
class Weights:
    """A scratch network, its name (`shape`), and the tokenizers and languages of its inputs.

    All compared implementations get the weights of this network.
    """

    shape: str
    network: Transformer
    tokenizers: tuple[Tokenizer, Tokenizer] | None = None
    languages: tuple[str, str] = ("", "")
    imported: Imported | None = None

    @classmethod
    def of(cls, folder: Path | None, random: str | None) -> "Weights":
        """Load a checkpoint's weights, or draw random ones for a small network.

        `random` lists changes to the small network's configuration, such as "d_model=512".
        Raises CheckpointError, and ValueError for unknown changes.
        """
        if random is not None:
            config = _with_changes(_SMALL, random)
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(0)
                network = Transformer(config)
            return cls(f"random {_describe(config)}", network.eval())
        assert folder is not None
        checkpoint = load(folder)
        network = Transformer(checkpoint.card.model)
        copy_weights(checkpoint.model, network)
        card = checkpoint.card
        return cls(
            f"{card.folder.name} {_describe(card.model)}",
            network.eval(),
            (checkpoint.source_tokenizer, checkpoint.target_tokenizer),
            (card.source_language, card.target_language),
            card.imported,
        )

    def fixed_length(self, length: int) -> Transformer:
        """Return the network, modified to write exactly `length` tokens."""
        network = self.network
        config = dataclasses.replace(
            network.config, dropout=0.0, tie_classifier=False, tied_bias=False, max_length=length
        )
        weight, bias = network.embeddings.projection
        state = dict(network.state_dict())
        state.pop("embeddings.tied_bias", None)  # it becomes the classifier's bias
        state = {n: x[:length] if "_positions." in n else x for n, x in state.items()}
        logit_bias = torch.zeros(len(weight)) if bias is None else bias.detach().clone()
        logit_bias[[PAD, BOS, EOS]] = NEVER
        state |= {"embeddings.classifier.weight": weight, "embeddings.classifier.bias": logit_bias}
        scratch = Transformer(config).eval().requires_grad_(False)
        scratch.load_state_dict(state)
        accelerate(scratch)
        return scratch

    def sources(self, batch: int, length: int) -> Tensor:
        """Return rows of random sentences, or of random ids, [batch, length], ending in <eos>.

        Every call returns the same rows.
        """
        rng = random.Random(0)
        parts = _ENGLISH if self.languages[0] == "en" else _GERMAN
        rows = []
        for _ in range(batch):
            ids: list[int] = [*self.tokenizers[0].first] if self.tokenizers else []
            while len(ids) < length - 1:
                if self.tokenizers is None:
                    ids.append(rng.randrange(4, self.network.config.source_vocab_size))
                else:
                    text = " ".join(rng.choice(options) for options in parts) + "."
                    ids += [token.id for token in self.tokenizers[0].encode(text)]
            rows.append([*ids[: length - 1], EOS])
        return pad(rows)


def baseline_of(network: Transformer) -> Baseline:
    """Return a copy as torch.nn.Transformer. Raises ValueError if that lacks one of its parts."""
    baseline = build("baseline", network.config).eval().requires_grad_(False)
    copy_weights(network, baseline)
    assert isinstance(baseline, Baseline)
    return baseline


def _with_changes(config: ModelConfig, changes: str) -> ModelConfig:
    """Return the configuration with changes such as "d_model=512,norm_first=true"."""
    kinds = {f.name: f.type for f in dataclasses.fields(ModelConfig)}
    values = {}
    for change in filter(None, changes.split(",")):
        name, _, value = change.partition("=")
        try:
            if kinds[name] is bool:
                values[name] = {"true": True, "false": False}[value]
            else:
                values[name] = int(value)
        except (KeyError, ValueError):
            raise ValueError(
                f"--random {change!r} is not a network setting: use for example "
                "d_model=512,num_heads=8,norm_first=true"
            ) from None
    return dataclasses.replace(config, **values)


def _describe(config: ModelConfig) -> str:
    layers = f"{config.num_encoder_layers}+{config.num_decoder_layers}"
    sizes = f"{layers} × {config.d_model}/{config.dim_feedforward}, {config.target_vocab_size}"
    return f"{sizes} {'pre' if config.norm_first else 'post'}"
