"""Find the batch rows of a generated sequence, and where it ends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from core.record.adapters.steps import Steps
from core.record.adapters.values import dense, whole_numbers
from core.record.adapters.vocabulary import Vocabulary

SAME_CALL = "pass the inputs and the outputs of one call"
_CONFIG = "pass config=model.generation_config, which says what ends a sequence"


def path_of(
    outputs: Any,
    produced: np.ndarray,
    index: int,
    own_rows: range,
    steps: Steps,
    config: Any,
    vocabulary: Vocabulary,
) -> np.ndarray:
    """Return the batch row of each produced token of a sequence, without what fills it up.

    `produced` are the ids [sequence, token] after those fed in first, `own_rows` the batch rows of
    the sequence's sentence. The end comes from `beam_indices`; without them, see `_end`. Raises
    ValueError, in one line, unless rows and end are proven.
    """
    ids, known = produced[index], _ids(setting(config, "eos_token_id"))
    ends = known or _ids(vocabulary.special("eos")) or _ids(vocabulary.special("sep"))
    pads = _ids(setting(config, "pad_token_id")) | _ids(vocabulary.special("pad"))
    path = _beams(outputs, produced, index, own_rows, steps)
    if path is None:
        path = np.full(len(ids), index)
        length = _end(produced, index, ends, pads, proven=bool(known))
    else:
        length = len(path)
    while length and ids[length - 1] in pads - ends:
        length -= 1
    if not length:
        raise ValueError(f"sequence {index + 1} holds padding only: choose another index")
    return path[:length]


def setting(config: Any, name: str) -> Any:
    """Return a setting of a model, of its (generation) configuration or of a dict; else None."""
    config = getattr(config, "generation_config", None) or config
    return config.get(name) if isinstance(config, Mapping) else getattr(config, name, None)


def _ids(given: Any) -> set[int]:
    """Return the ids that a setting lists. Raises ValueError, in one line, for other values."""
    listed = dense(given, "a special id", "ids").tolist() if hasattr(given, "tolist") else given
    listed = (
        [] if listed is None else listed if isinstance(listed, list | tuple | set) else [listed]
    )
    if any(type(id) is not int for id in listed):
        raise ValueError("a special id is not a whole number: pass the ids of the vocabulary")
    return set(listed)


def _beams(
    outputs: Any, produced: np.ndarray, index: int, own_rows: range, steps: Steps
) -> np.ndarray | None:
    """Return the rows of a beam search, up to the first -1; None for other searches."""
    count, width = produced.shape
    beams = getattr(outputs, "beam_indices", None)
    if beams is None:
        if steps.rows != count or "Beam" in type(outputs).__name__:
            raise ValueError(
                f"{count} sequences come from {steps.rows} beams, but beam_indices is missing: "
                "call generate with output_scores=True as well"
            )
        if width != steps.count:
            raise ValueError(_unequal(width, steps.count))
        return None
    beams = whole_numbers(beams, "beam_indices")
    if len(beams) != count:
        raise ValueError(f"beam_indices has {len(beams)} rows for {count} sequences: {SAME_CALL}")
    rows = beams[index]
    length = int((rows < 0).argmax()) if (rows < 0).any() else len(rows)
    path, after = rows[:length], rows[length:]
    if not length or (after >= 0).any() or not np.isin(path, own_rows).all():
        raise ValueError(
            f"beam_indices of sequence {index + 1} leave its sentence's rows "
            f"{own_rows.start} to {own_rows.stop - 1}: {SAME_CALL}"
        )
    if length > min(width, steps.count):
        raise ValueError(_unequal(length, min(width, steps.count)))
    if len(set(produced[index, length:].tolist())) > 1:
        raise ValueError(
            f"sequence {index + 1} goes on after its {length} beam_indices: pass the outputs of "
            "generate unchanged"
        )
    return path


def _end(produced: np.ndarray, index: int, ends: set[int], pads: set[int], proven: bool) -> int:
    """Return the number of tokens up to the end, without beams to tell.

    A batch goes on until its last sequence has ended; the others are filled up, with padding or
    with an end id. `proven` tells that `ends` are the model's own. Otherwise the tokenizer suggests
    them: only padding may follow the first of them, and if there is none, the last tokens must not
    look filled up.
    """
    ids = produced[index]
    is_end, is_pad = np.isin(ids, list(ends)), np.isin(ids, list(pads))
    fills = is_end | is_pad if proven else is_pad
    if is_end.any():
        length = int(is_end.argmax()) + 1
        if not fills[length:].all():
            raise ValueError(
                f"sequence {index + 1} has other ids than padding after its end id "
                f"{ids[length - 1]}: {_CONFIG}"
            )
        return length
    if (
        not proven
        and not np.isin(produced[:, -1], list(pads)).any()
        and _looks_filled(produced, index)
    ):
        raise ValueError(
            f"sequence {index + 1} may have ended with id {ids[-1]}, which fills it up: {_CONFIG}"
        )
    return len(ids)


def _looks_filled(produced: np.ndarray, index: int) -> bool:
    """Return whether the last id of a sequence may be an end id that fills it up.

    The id then comes twice or more at its end and is followed by nothing else in any sequence, but
    some sequence was still going on. Runs of different ids are a model's repetition.
    """
    if produced.shape[1] < 2:
        return False
    same = produced == produced[index, -1]
    runs = produced[:, -1] == produced[:, -2]
    last = (same[:, 1:] | ~same[:, :-1]).all()
    return bool(runs[index] and last and not same[:, -2].all() and not (runs & ~same[:, -1]).any())


def _unequal(tokens: int, rows: int) -> str:
    return (
        f"{tokens} tokens were produced, but ids and attention rows are there for {rows}: pass the "
        "outputs of generate unchanged"
    )
