"""Two passes side by side: two sentences, two networks, or one pass before and after edits.

Saved from Headlight's page *Two at once*. Run it with the Python of Headlight's `.venv`. Layers,
heads and tokens count from 0.
"""

# %% What the page shows
import core
from app.export import show

MODEL = "scratch-de-en"
WEIGHTS = ""  # how the SHA-256 of the page's weights begins
SPOKEN = (None, None, None)  # chosen languages, by their codes, and prefix
SOURCE = "Ein Hund läuft durch den Schnee."
BEAM = 5  # 1: greedy search
COMPARE = "sentence"  # with another "sentence" or "model", or the same with "edits"
SECOND_SOURCE = "Zwei Hunde laufen durch den Schnee."
SECOND_MODEL = ""
EDITS = ""
KIND = "cross"
LAYER = 2  # or "mean" or "max" of all layers
HEAD = 0  # or "mean" or "max" of all heads

# %% Both passes
translator = core.load(MODEL).between(*SPOKEN)
record = translator.inspect(SOURCE, beam=BEAM)
assert record.weights_sha256.startswith(WEIGHTS), "these are not the page's weights"
if COMPARE == "sentence":
    second = translator.inspect(SECOND_SOURCE, beam=BEAM)
elif COMPARE == "model":
    second = core.load(SECOND_MODEL).inspect(SOURCE, record.translation)
else:
    target_ids = [token.id for token in record.target_out]
    edits, _ = core.Edits.parse(EDITS)
    second = translator.inspect(SOURCE, edits=edits, target_ids=target_ids)

# %% Their log-probabilities, and the key that each row of the chosen head looks at most
for one in (record, second):
    print(f"{one}\nlog-probability {one.log_prob:.3f}")
    weights = one.attention[KIND]  # [layer, head, query, key]
    weights = weights[:, HEAD] if isinstance(HEAD, int) else getattr(weights, HEAD)(1)
    weights = weights[LAYER] if isinstance(LAYER, int) else getattr(weights, LAYER)(0)
    keys = one.tokens("target_in" if KIND == "decoder" else "source")
    for token, row in zip(
        one.tokens("source" if KIND == "encoder" else "target"), weights, strict=True
    ):
        print(f"{token:20} {keys[row.argmax()]:20} {row.max():.4f}")

# %% All maps of the first pass
show(record)

# %% All maps of the second pass
show(second)
