"""The tree of the search, every score as a sum, and where the heads looked at one step.

Saved from Headlight's page *Step by step*. Run it with the Python of Headlight's `.venv`. Layers,
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
EDITS = ""
PREFIX = ()  # target ids that the search must begin with
PATH = (4,)  # target ids from the first token to the pinned one

# %% The free search and, if there is a prefix, the forced one: their translations, best first
translator = core.load(MODEL).between(*SPOKEN)
edits, _ = core.Edits.parse(EDITS)
decode = core.DecodeConfig(beam=BEAM)
for prefix in dict.fromkeys([(), PREFIX]):
    written = translator.search_tree(SOURCE, decode=decode, prefix=prefix, edits=edits)
    for text, found in zip(written.texts, written.tree.hypotheses, strict=True):
        print(f"score {found.score:.3f}, log-probability {found.log_prob:.3f}: {text}")

# %% The nodes of the last tree: each total is the sum of the log-probabilities on its path
nodes = written.tree.nodes
for at, node in enumerate(nodes[1:], 1):
    path = " ".join(written.tokens[token].text for token in written.tree.ids(at))
    print(f"{node.status:9} {node.log_prob:8.3f} {node.total:8.3f} {node.score:8.3f} {path}")

# %% Where the heads looked while the last token of the path was produced
record = translator.inspect(SOURCE, edits=edits, target_ids=PATH)
assert record.weights_sha256.startswith(WEIGHTS), "these are not the page's weights"
rows = record.attention["cross"][:, :, -1]  # [layer, head, key]
source = record.tokens("source")
for layer, head in [(layer, head) for layer in range(len(rows)) for head in range(rows.shape[1])]:
    row = rows[layer, head]
    print(f"{layer}.{head} {source[row.argmax()]:20} {row.max():.4f}")

# %% All maps of the path
show(record)
