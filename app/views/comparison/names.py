"""Display names of models on this page."""

from app.state.models import Implementation

CODE = {"scratch": "the scratch code", "baseline": "torch.nn.Transformer"}


def model_name(model: Implementation) -> str:
    """Return a model's name: its weights and its implementation."""
    code = CODE[model.architecture]
    if model.other:
        return f"{model.card.title}: the same weights in {code}"
    made = "as trained" if model.card.imported is None else "as converted"
    return f"{model.card.title}: {made}, in {code}"
