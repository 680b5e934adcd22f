"""Why the networks of other well-known families cannot be converted."""

_NORM = "it adds a norm to the embeddings"
_LEARNED = "its positions are learned"
_FORCED = "its first target token is forced, and its networks exceed the limit on weights"
_DISTANCE = "its self-attention scores have a bias that depends on the distance"
_LOCAL = "its encoder attends to a part of the source only"

_REASONS = {
    "annotatedtransformer": "its norm divides by another standard deviation, of n − 1 values",
    "bart": f"{_NORM} and has byte-level subwords",
    "bentrevett": f"{_LEARNED}, and its names are of no family",
    "bigbirdpegasus": _LOCAL,
    "blenderbot": _LEARNED,
    "encoderdecoder": f"{_LEARNED}, as those of the BERT networks that it joins",
    "fsmt": "it splits text by Moses and BPE, without SentencePiece",
    "led": _LOCAL,
    "m2m100": _FORCED,
    "mbart": f"{_NORM}, and its networks exceed the limit on weights",
    "mt5": _DISTANCE,
    "nllb": _FORCED,
    "pegasusx": _LOCAL,
    "plbart": f"{_NORM}, and {_LEARNED}",
    "prophetnet": "its decoder predicts several tokens at once",
    "t5": _DISTANCE,
    "umt5": _DISTANCE,
}


def refusal(family: str) -> str:
    """Return why a family cannot be converted, or "" if nothing is known about it."""
    return _REASONS.get("".join(filter(str.isalnum, family.lower())), "")
