"""Export a record's arrays as CSV tables with token names."""

import io
import zipfile

import pandas as pd

from core.kinds import KINDS
from core.record.record import TranslationRecord


def csv_zip(record: TranslationRecord) -> bytes:
    """Return a zip of CSV files: weights by kind, tokens and, if recorded, steps and positions.

    `about.csv` describes the record. Numbers have the fewest digits that round-trip.
    """
    tables = {
        "about": _about(record),
        **{kind: weights_table(record, kind) for kind in KINDS if record.has(kind)},
        "tokens": _tokens(record),
    }
    if not record.origin:  # imported maps come without steps and positions
        tables["steps"] = _steps(record)
        for name in ("source_positions", "target_positions"):
            tables[name] = pd.DataFrame(getattr(record, name))
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, table in tables.items():
            # Spreadsheets read UTF-8 only with a byte-order mark.
            archive.writestr(f"{name}.csv", table.to_csv(index=False).encode("utf-8-sig"))
    return buffer.getvalue()


def weights_table(record: TranslationRecord, kind: str) -> pd.DataFrame:
    """Return `record.to_dataframe(kind)` with the mask, and tokens escaped by `as_text`."""
    table = record.to_dataframe(kind)
    for column in ("query_token", "produced_token", "key_token"):
        table[column] = table[column].map({text: as_text(text) for text in table[column].unique()})
    table["may_attend"] = record.mask(kind)[table["query"], table["key"]]
    return table


def as_text(text: str) -> str:
    """Put an apostrophe before text that a spreadsheet would read as a formula."""
    return f"'{text}" if len(text) > 1 and text[0] in "=+-@\t\r" else text


def _about(record: TranslationRecord) -> pd.DataFrame:
    rows = {
        "model": record.model,
        **({"credit": record.credit} if record.credit else {}),
        "weights_sha256": record.weights_sha256,
        **_imported(record),
        "direction": f"{record.source_language} to {record.target_language}",
        "search": record.search,
        "source": record.source_text,
        "translation": record.translation,
        "record": record.id,
        "quantity": "attention weights after the softmax, before dropout",
        "precision": f"32-bit numbers as {'imported' if record.origin else 'recorded'}",
        "rows": "query_token is read (encoder) or fed in; produced_token is predicted by that row",
        "counting": "layers, heads, queries and keys from 0",
    }
    cells = [(name, as_text(value)) for name, value in rows.items()]
    return pd.DataFrame(cells, columns=["name", "value"])


def _imported(record: TranslationRecord) -> dict[str, str]:
    """Say which checks imported maps passed, and which need the weights."""
    if not record.origin:
        return {}
    made = (f"{'passed' if c.passed else 'failed'}: {c.name}" for c in record.checks)
    missing = [kind for kind in KINDS if not record.has(kind)]
    return {
        "checks": "; ".join(made),
        "not checked for lack of the weights": "; ".join(record.unchecked),
        "kinds without maps": ", ".join(missing) or "none",
    }


def _tokens(record: TranslationRecord) -> pd.DataFrame:
    return pd.DataFrame(
        [
            {
                "side": side,
                "position": i,
                "id": t.id,
                "piece": as_text(t.piece),
                "text": as_text(t.text),
            }
            for side in ("source", "target_in", "target_out")
            for i, t in enumerate(getattr(record, side))
        ]
    )


def _steps(record: TranslationRecord) -> pd.DataFrame:
    """Return each step's token and its top alternatives, with log-probabilities in nats."""
    return pd.DataFrame(
        [
            {
                "step": step,
                "token": as_text(record.target_out[step].text),
                "log_prob": record.log_probs[step],
                "rank": rank,
                "alternative": as_text(token.text),
                "alternative_log_prob": record.alternative_log_probs[step, rank],
            }
            for step, row in enumerate(record.alternatives)
            for rank, token in enumerate(row)
        ]
    )
