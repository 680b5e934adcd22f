"""A start from a trained checkpoint: its vocabulary and its weights, which may grow wider."""

from dataclasses import replace

from core.checkpoint.folder import Checkpoint
from core.model.baseline import copy_weights
from core.model.build import Model
from core.model.transformer import Transformer
from core.text.tokenizer import Tokenizer
from core.training.wider import WIDTHS, may_grow, widen


def tokenizers_of(start: Checkpoint, languages: tuple[str, str]) -> tuple[Tokenizer, Tokenizer]:
    """A checkpoint's tokenizers for a run from one language to another.

    Raises ValueError if it is not for these languages, or has a table for each and is turned round.
    """
    card = start.card
    both = start.source_tokenizer, start.target_tokenizer
    if card.direction == "-".join(languages):
        return both
    if card.direction == "-".join(reversed(languages)) and card.model.share_embeddings:
        return both[::-1]
    raise ValueError(
        f"{card.folder} translates {card.direction} with "
        f"{'one vocabulary' if card.model.share_embeddings else 'two vocabularies'}: "
        f"start {'-'.join(languages)} from a checkpoint of that direction"
    )


def take_over(start: Checkpoint, model: Model, architecture: str) -> None:
    """Copy a checkpoint's weights, or `widen` them. Raises ValueError if its shape fits neither.

    Dropout may be another.
    """
    card, wanted = start.card, model.config
    free = {"dropout": wanted.dropout, "attention_dropout": wanted.attention_dropout}
    wider = may_grow(card.model, wanted)
    if wider:
        free |= {name: getattr(wanted, name) for name in WIDTHS}
    own = {"architecture": card.architecture, **replace(card.model, **free).to_json()}
    for name, value in {"architecture": architecture, **wanted.to_json()}.items():
        if own[name] != value:
            raise ValueError(
                f"{card.folder} has {name} {own[name]}, and the recipe {value}: "
                "choose the recipe and the model that the checkpoint was made with"
            )
    if not wider:
        model.load_state_dict(start.model.state_dict())
    else:  # the names of the scratch model's weights are those that `widen` knows
        narrow, wide = Transformer(card.model), Transformer(wanted)
        copy_weights(start.model, narrow)
        copy_weights(model, wide)
        widen(narrow, wide)
        copy_weights(wide, model)
