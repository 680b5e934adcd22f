"""Where each head looks, and what the edits change.

Saved from Headlight's page *Translate*. Run it with the Python of Headlight's `.venv`. Layers,
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
EDITS = ""
KIND = "cross"
LAYER = 2  # or "mean" or "max" of all layers
HEAD = 0  # or "mean" or "max" of all heads
QUERY = None  # the pinned row, if there is one

# %% The translation, and the probability of each token
translator = core.load(MODEL).between(*SPOKEN)
record = translator.inspect(SOURCE, TARGET, beam=BEAM)
assert record.weights_sha256.startswith(WEIGHTS), "these are not the page's weights"
print(record)
for token, log_prob in zip(record.tokens("target"), record.log_probs, strict=True):
    print(f"{token:20} {np.exp(log_prob):.4f}")
print(f"log-probability {record.log_prob:.3f}")

# %% The same translation under the edits, and what the network writes under them
edits, _ = core.Edits.parse(EDITS)
target_ids = [token.id for token in record.target_out]
after = record
if edits != core.Edits():
    after = translator.inspect(SOURCE, edits=edits, target_ids=target_ids)
change = after.log_probs - record.log_probs  # nats, by target token
print(f"{change.sum():+.3f} nats: {np.round(change, 3)}")
if edits.causal_mask:  # without it, nothing can be searched for
    again = translator.inspect(SOURCE, edits=edits, beam=BEAM)
    print(again.translation)

# %% The map of the chosen head: the key that each query looks at most
weights = after.attention[KIND]  # [layer, head, query, key]
weights = weights[:, HEAD] if isinstance(HEAD, int) else getattr(weights, HEAD)(1)
weights = weights[LAYER] if isinstance(LAYER, int) else getattr(weights, LAYER)(0)
queries = after.tokens("source" if KIND == "encoder" else "target")
keys = after.tokens("target_in" if KIND == "decoder" else "source")
for row, token in enumerate(queries):
    if QUERY in (None, row):
        print(f"{token:20} {keys[weights[row].argmax()]:20} {weights[row].max():.4f}")

# %% The heads that matter most: the change of the log-probability without each
effects = core.head_effects(translator, after)
for kind, layer, head, nats in effects.ranked()[:8]:
    print(f"{kind} {layer}.{head} {nats:+.3f} nats")

# %% What each source token's state already says, by layer, read by the Jacobian lens
try:
    lens = core.jacobian_lens(translator, after)
    for layer, best in enumerate(lens.encoder.ids[..., 0].tolist()):
        print(layer, *(token.text for token in translator.target_tokens(best)))
except ValueError as error:  # the network has no lens
    print(error)

# %% All maps
show(after)
