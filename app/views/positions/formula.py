"""The formula of the first layer's input; not every network scales its embeddings."""

from app.lessons.texts import text
from core.checkpoint.folder import Card


def embedding(card: Card) -> str:
    """Return the embedding's term in LaTeX, as this network adds it."""
    return (r"\sqrt{d_{\text{model}}}\," if card.model.scale_embeddings else "") + "E_{w_p}"


def in_words(card: Card) -> str:
    """Say what the embedding's term is."""
    return text(
        "positions", "sums.scaled.name" if card.model.scale_embeddings else "sums.unscaled.name"
    )
