"""Which heads matter, why this word, what each layer knew, and where a word came from.

Saved from Headlight's page *Ask why*. Run it with the Python of Headlight's `.venv`. Layers, heads
and tokens count from 0.
"""

# %% What the page shows
import numpy as np

import core
from app.export import show

MODEL = "scratch-de-en"
WEIGHTS = ""  # how the SHA-256 of the page's weights begins
SPOKEN = (None, None, None)  # chosen languages, by their codes, and prefix
SOURCE = "Ein Hund läuft durch den Schnee."
BEAM = 5  # 1: greedy search
FOR = -1  # rank the heads for this target token; -1: for the whole translation
PAIRS = "cross"  # the kind of the pairs of heads
STEP = 0  # the target token to compare
OTHER = None  # the id of the token to compare it with; None: the most probable other one
KNEW = None  # the id of the token to rank in every state; None: the one that is compared
TOKEN = 0  # the target token to attribute to the source words

# %% The pass
translator = core.load(MODEL).between(*SPOKEN)
record = translator.inspect(SOURCE, beam=BEAM)
assert record.weights_sha256.startswith(WEIGHTS), "these are not the page's weights"
print(record)

# %% Which head matters here?
effects = core.head_effects(translator, record)
ranked = effects.ranked(None if FOR < 0 else FOR)
for kind, layer, head, nats in ranked[:12]:
    print(f"{kind} {layer}.{head} {nats:+.3f} nats")

# %% Which heads back each other up? Negative: more is lost together
pairs = core.pair_effects(translator, record, PAIRS)
for first, second, beyond in [*pairs.ranked()[:3], *pairs.ranked()[-3:]]:
    print(f"{first} and {second}: {beyond:+.3f} nats")

# %% Why this word and not that one?
rivals = core.rivals(translator, record, STEP)
words = record.target_out[STEP].id, rivals.ids[0] if OTHER is None else OTHER
own, other = (token.text for token in translator.target_tokens(words))
choice = core.word_choice(translator, record, STEP, words)
print(f"logit of {own} − logit of {other} = {choice.difference:+.3f}")
for component, term in choice.largest(8):
    print(f"{term:+.3f} {component.label}")
    if component.head is not None:
        off = core.Edits(heads_off=frozenset({component.place}))
        print(f"{core.true_change(translator, record, STEP, words, off):+.3f} when it is off")

# %% What did each layer already know? What if the encoder stopped earlier?
lens = core.lens(translator, record)
decoder_lens = core.decoder_lens(translator, record)
for grid in (lens, decoder_lens):
    for row, ids in zip(grid.rows, grid.ids.tolist(), strict=True):
        print(f"{row.label:24}", *(token.text for token in translator.target_tokens(ids)))

# %% Did the encoder know it? Its rank in every state, read by the Jacobian lens
try:
    knew = core.jacobian_lens(translator, record, [words[0] if KNEW is None else KNEW])
    print(f"encoder, [layer, source token]\n{knew.encoder.ranks[..., 0]}")
    print(f"decoder, [layer, target token]\n{knew.decoder.ranks[..., 0]}")
except ValueError as error:  # the network has no lens
    print(error)

# %% Where did this token come from?
shapley = core.shapley(translator, record, None, 64)
scores = core.attributions(translator, record)
agreement = core.agreement(scores, shapley)
print("Shapley values", np.round(shapley.values[TOKEN], 3))
for method, values in scores.scores.items():
    print(f"{method:28} ρ = {agreement[method].of(TOKEN):.2f}", np.round(values[TOKEN], 3))

# %% All maps
show(record)
