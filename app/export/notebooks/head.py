"""One attention weight, from the two vectors that enter the head to what the head adds.

Saved from Headlight's page *Inside a head*. Run it with the Python of Headlight's `.venv`. Layers,
heads and tokens count from 0.
"""

# %% What the page shows
import numpy as np

import core
from app.export import show

MODEL = "scratch-de-en"
WEIGHTS = ""  # how the SHA-256 of the page's weights begins
SPOKEN = (None, None, None)  # chosen languages, by their codes, and prefix
SOURCE = "Ein Hund läuft durch den Schnee."
TARGET = None  # a given translation; None: the network's own
BEAM = 5  # 1: greedy search
KIND = "cross"
LAYER = 3
HEAD = 0
QUERY = 1
KEY = 1

# %% The pass, and the inputs and matrices of this attention
translator = core.load(MODEL).between(*SPOKEN)
record = translator.inspect(SOURCE, TARGET, beam=BEAM)
assert record.weights_sha256.startswith(WEIGHTS), "these are not the page's weights"
print(record)
inside = core.inside_head(core.site(translator, record, KIND, LAYER), HEAD, QUERY)

# %% From q and k to the weight
product, score, weight = (
    values[KEY] for values in (inside.scores_K, inside.scaled_K, inside.weights_K)
)
print(f"q·k = {product:.4f}; divided by √{len(inside.q_E)}: {score:.4f}")
print(f"weight {weight:.7f}; in the map {record.attention[KIND, LAYER, HEAD][QUERY, KEY]:.7f}")

# %% All keys of the row: dot product, score, score after the mask, exponential, weight
keys = record.tokens("target_in" if KIND == "decoder" else "source")
columns = inside.scores_K, inside.scaled_K, inside.masked_K, inside.exps_K, inside.weights_K
for token, *numbers in zip(keys, *columns, strict=True):
    print(f"{token:20}", *(f"{number:9.4f}" for number in numbers))

# %% What each head of the layer adds to the output: the length of its part
print(np.linalg.norm(inside.parts_HD, axis=-1))

# %% Why the head looks there: the score, split by the parts of query and key
split = core.score_split(translator, record, KIND, LAYER, HEAD, QUERY, KEY)
query_parts, key_parts, sums = split.by_group()
for part, row in zip(query_parts, sums, strict=True):
    print(part, dict(zip(key_parts, np.round(row, 3).tolist(), strict=True)))
for query_part, key_part, term in split.largest(8):
    print(f"{term:+.3f} {query_part.label} × {key_part.label}")

# %% All maps
show(record)
