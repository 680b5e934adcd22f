"""Push a token's state away from one word of the translation, towards another.

Saved from Headlight's page *Two at once*. Run it with the Python of Headlight's `.venv`. Layers,
heads and tokens count from 0; layer 0 of a state is the embeddings.
"""

# %% What the page shows
import core
from app.export import show

MODEL = "scratch-de-en"
WEIGHTS = ""  # how the SHA-256 of the page's weights begins
SPOKEN = (None, None, None)  # chosen languages, by their codes, and prefix
SOURCE = "Ein Hund läuft durch den Schnee."
BEAM = 5  # 1: greedy search
LAYER = 0
POSITION = 1  # of the source token
OLD = 158  # the id of the word to push away from
NEW = 1143  # the id of the word to push towards
STRENGTH = 16.0  # the length of the push

# %% The pass and the push
translator = core.load(MODEL).between(*SPOKEN)
record = translator.inspect(SOURCE, beam=BEAM)
assert record.weights_sha256.startswith(WEIGHTS), "these are not the page's weights"
old, new = translator.target_tokens([OLD, NEW])
print(f"{record}\nless {old.text}, more {new.text}")

# %% The translation after the push, and after a random push of the same length
steered = core.steer(translator, record, POSITION, NEW, OLD, layer=LAYER, strength=STRENGTH)
print(f"{steered.pushed.translation}\n{steered.random.translation}")

# %% The probability of both words by strength
step = [token.id for token in record.target_out].index(OLD)
push = core.Push("encoder", LAYER, POSITION, OLD, NEW, STRENGTH)
curve = core.push_curve(translator, record, push, step)
for strength, *numbers in zip(curve.strengths, curve.old, curve.new, strict=True):
    print(f"{strength:8.2f}", *(f"{number:.4f}" for number in numbers))

# %% All maps after the push
show(steered.pushed)
