"""Push a token's state away from one word of the translation, towards another.

Saved from Headlight's page *Two at once*. Run it with the Python of Headlight's `.venv`. Layers,
heads and tokens count from 0; layer 0 of a state is the embeddings.
"""

# %% What the page shows
from dataclasses import replace

import core
from app.export import show

MODEL = "scratch-de-en"
WEIGHTS = ""  # how the SHA-256 of the page's weights begins
SOURCE = "Ein Hund läuft durch den Schnee."
BEAM = 5  # 1: greedy search
EDITS = "push.encoder.0.1.158.1143.16"  # side, layer, token, old id, new id, strength

# %% The pass and the push
translator = core.load(MODEL)
record = translator.inspect(SOURCE, beam=BEAM)
assert record.weights_sha256.startswith(WEIGHTS), "these are not the page's weights"
(push,) = core.Edits.parse(EDITS)[0].pushes
old, new = translator.target_tokens([push.old, push.new])
print(f"{record}\nless {old.text}, more {new.text}")

# %% The translation after the push, and after a random push of the same length
at = {"layer": push.layer, "strength": push.strength, "side": push.side}
steered = core.steer(translator, record, push.position, push.new, push.old, **at)
print(f"{steered.pushed.translation}\n{steered.random.translation}")

# %% The probability of both words by strength
step = [token.id for token in record.target_out].index(push.old)
curve = core.push_curve(translator, record, replace(push, strength=1), step)
for strength, *numbers in zip(curve.strengths, curve.old, curve.new, strict=True):
    print(f"{strength:8.2f}", *(f"{number:.4f}" for number in numbers))

# %% All maps after the push
show(steered.pushed)
