"""Display names of models on this page."""

from app.state.models import Implementation

CODE = {"scratch": "the scratch code", "baseline": "torch.nn.Transformer"}


def model_name(model: Implementation) -> str:
    """Return a model's name: its weights and its implementation."""
    code = CODE[model.architecture]
    return f"{model.card.folder.name}: " + (
        f"the same weights in {code}" if model.other else f"as trained, in {code}"
    )
