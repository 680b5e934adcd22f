"""Display names of models on this page."""

from app.state.models import Implementation

CODE = {"scratch": "the scratch code", "baseline": "torch.nn.Transformer"}


def name(contestant: Implementation) -> str:
    """Return a model's name: its weights and its implementation."""
    code = CODE[contestant.architecture]
    return f"{contestant.card.folder.name}: " + (
        f"the same weights in {code}" if contestant.other else f"as trained, in {code}"
    )
