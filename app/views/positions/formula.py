"""The formula of the first layer's input; not every network scales its embeddings."""

from core.checkpoint.folder import Card


def embedding(card: Card) -> str:
    """Return the embedding's term in LaTeX, as this network adds it."""
    return (r"\sqrt{d_{\text{model}}}\," if card.model.scale_embeddings else "") + "E_{w_p}"


def in_words(card: Card) -> str:
    """Say what the embedding's term is."""
    if card.model.scale_embeddings:
        return "its embedding, times √d_model (§3.4 of the paper)"
    return "its embedding (this network leaves out the factor √d_model of the paper's §3.4)"
