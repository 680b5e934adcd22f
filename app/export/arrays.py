"""The arrays of a record as tables: one CSV for each, with the tokens' names beside the numbers."""

import io
import zipfile

import numpy as np
import pandas as pd

from core.record import TranslationRecord

KINDS = ("encoder", "decoder", "cross")


def csv_zip(record: TranslationRecord) -> bytes:
    """A zip of CSV files: the weights of each kind, the tokens, the steps, and the positions."""
    tables = {
        **{kind: weights_table(record, kind) for kind in KINDS},
        "tokens": _tokens(record),
        "steps": _steps(record),
        "source_positions": pd.DataFrame(record.source_positions),
        "target_positions": pd.DataFrame(record.target_positions),
    }
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, table in tables.items():
            archive.writestr(f"{name}.csv", table.to_csv(index=False))
    return buffer.getvalue()


def weights_table(record: TranslationRecord, kind: str) -> pd.DataFrame:
    """One row a cell: layer and head from 0, query and key with their tokens, weight, mask."""
    weights, mask = record.maps(kind), record.mask(kind)
    rows = record.source if kind == "encoder" else record.target_in
    columns = record.target_in if kind == "decoder" else record.source
    layer, head, query, key = (axis.ravel() for axis in np.indices(weights.shape))
    return pd.DataFrame(
        {
            "layer": layer,
            "head": head,
            "query": query,
            "query_token": np.array([t.text for t in rows], object)[query],
            "key": key,
            "key_token": np.array([t.text for t in columns], object)[key],
            "weight": weights.ravel(),
            "may_attend": mask[query, key],
        }
    )


def _tokens(record: TranslationRecord) -> pd.DataFrame:
    return pd.DataFrame(
        [
            {"side": side, "position": i, "id": t.id, "piece": t.piece, "text": t.text}
            for side in ("source", "target_in", "target_out")
            for i, t in enumerate(getattr(record, side))
        ]
    )


def _steps(record: TranslationRecord) -> pd.DataFrame:
    """What each step wrote, its log-probability, and the likeliest tokens with theirs, in nats."""
    return pd.DataFrame(
        [
            {
                "step": step,
                "token": record.target_out[step].text,
                "log_prob": record.log_probs[step],
                "rank": rank,
                "alternative": token.text,
                "alternative_log_prob": record.alternative_log_probs[step, rank],
            }
            for step, row in enumerate(record.alternatives)
            for rank, token in enumerate(row)
        ]
    )
