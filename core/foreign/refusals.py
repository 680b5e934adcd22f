"""Why the networks of other well-known families cannot be converted."""

_LEARNED = "its positions are learned"
_LOCAL = "its encoder attends to a part of the source only"

_REASONS = {
    "annotatedtransformer": "its norm divides by another standard deviation, of n − 1 values",
    "bentrevett": f"{_LEARNED}, and its names are of no family",
    "bigbirdpegasus": _LOCAL,
    "blenderbot": _LEARNED,
    "encoderdecoder": f"{_LEARNED}, as those of the BERT networks that it joins",
    "led": _LOCAL,
    "pegasusx": _LOCAL,
    "plbart": "it splits code, not sentences, into subwords",
    "prophetnet": "its decoder predicts several tokens at once",
    "umt5": "each of its layers has a bias by distance of its own",
}


def refusal(family: str) -> str:
    """Return why a family cannot be converted, or "" if nothing is known about it."""
    return _REASONS.get("".join(filter(str.isalnum, family.lower())), "")
