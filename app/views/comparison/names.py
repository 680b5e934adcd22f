"""What the parts of the page call a model."""

from app.state.models import Implementation

CODE = {"scratch": "the scratch code", "baseline": "torch.nn.Transformer"}


def name(contestant: Implementation) -> str:
    """What a list calls a model: whose weights, in which code."""
    code = CODE[contestant.architecture]
    return f"{contestant.card.folder.name}: " + (
        f"the same weights in {code}" if contestant.other else f"as trained, in {code}"
    )
