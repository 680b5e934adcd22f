"""Why the networks of other well-known families cannot be converted."""

_LOCAL = "its encoder attends to a part of the source only"

_REASONS = {
    "bigbirdpegasus": _LOCAL,
    "blenderbot": "it continues conversations, and was not trained to translate",
    "encoderdecoder": "it joins two BERT networks, whose token types and classifier no family has",
    "led": _LOCAL,
    "pegasusx": _LOCAL,
    "plbart": "it splits code, not sentences, into subwords",
    "prophetnet": "its decoder predicts several tokens at once",
    "umt5": "each of its layers has a bias by distance of its own",
}


def refusal(family: str) -> str:
    """Return why a family cannot be converted, or "" if nothing is known about it."""
    return _REASONS.get("".join(filter(str.isalnum, family.lower())), "")
