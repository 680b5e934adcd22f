"""Copy states and heads of one sentence's pass into another's: what brings its words.

Saved from Headlight's page *Two at once*. Run it with the Python of Headlight's `.venv`. Layers,
heads and tokens count from 0; layer 0 of a state is the embeddings.
"""

# %% What the page shows
import numpy as np

import core
from app.export import show

MODEL = "scratch-de-en"
WEIGHTS = ""  # how the SHA-256 of the page's weights begins
SPOKEN = (None, None, None)  # chosen languages, by their codes, and prefix
SOURCE = "Ein Mann liest ein Buch."
SECOND_SOURCE = "Eine Frau liest ein Buch."
BEAM = 5  # 1: greedy search
WAY = "restore"  # copy the first pass into the second; "damage": the second into the first
EDITS = ""  # the chosen copy

# %% Both passes
translator = core.load(MODEL).between(*SPOKEN)
first, second = (translator.inspect(text, beam=BEAM) for text in (SOURCE, SECOND_SOURCE))
assert first.weights_sha256.startswith(WEIGHTS), "these are not the page's weights"
print(f"{first}\n{second}")

# %% The translation after the chosen copy
edits, _ = core.Edits.parse(EDITS)
into = second if WAY == "restore" else first
after = translator.inspect(into.source_text, edits=edits, beam=BEAM)
print(after.translation)

# %% The share of the logit difference that each state and each head brings
patched = core.patch_all(translator, first, second, WAY)
print(patched.reason or f"logit differences {patched.clean:.3f} and {patched.corrupted:.3f}")
for name, shares in (("encoder", patched.encoder), ("decoder", patched.decoder)):
    print(f"{name}, [layer, token]\n{np.round(shares, 3)}")
for kind, shares in patched.heads.items():
    print(f"heads of {kind} attention, [layer, head]\n{np.round(shares, 3)}")

# %% All maps after the copy
show(after)
