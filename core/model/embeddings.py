"""What stands before and behind the two stacks: embeddings, positions, and the classifier."""

import math

import torch.nn.functional as F
from torch import Tensor, nn

from core.config import ModelConfig
from core.model.dropout import Dropout
from core.model.linear import Linear, linear
from core.model.positions import LearnedPositions, SinusoidalPositions
from core.text.tokenizer import PAD


class Embeddings(nn.Module):
    """Ids to vectors on both sides, and hidden states back to logits (paper §3.4, §3.5)."""

    def __init__(self, config: ModelConfig):
        super().__init__()
        self.scale = math.sqrt(config.d_model) if config.scale_embeddings else 1.0
        self.shared = config.share_embeddings
        self.tied = config.tie_classifier
        self.source_table = nn.Embedding(config.source_vocab_size, config.d_model)
        if not self.shared:
            self.target_table = nn.Embedding(config.target_vocab_size, config.d_model)
        positions = LearnedPositions if config.learned_positions else SinusoidalPositions
        self.source_positions = positions(config.max_length, config.d_model)
        self.target_positions = positions(config.max_length, config.d_model)
        if not self.tied:
            self.classifier = Linear(config.d_model, config.target_vocab_size)
        self.dropout = Dropout(config.dropout)

    @property
    def target_weight(self) -> Tensor:
        """The target's table [V, D]: the source's own where the two sides share one."""
        return self.source_table.weight if self.shared else self.target_table.weight

    def source(self, ids_BS: Tensor) -> Tensor:
        """embedding·√d_model (if scaled) + position: ids [B, S] → [B, S, D]."""
        x_BSD = self.look_up(ids_BS, self.source_table.weight)
        return self.dropout(x_BSD + self.source_positions(ids_BS.shape[1]))

    def target(self, ids_BT: Tensor, offset: int = 0) -> Tensor:
        """The same for the target; `offset` is the position of its first column."""
        x_BTD = self.look_up(ids_BT, self.target_weight)
        return self.dropout(x_BTD + self.target_positions(ids_BT.shape[1], offset))

    def look_up(self, ids: Tensor, table_VD: Tensor) -> Tensor:
        """Scaled rows of a table; padding is 0, so that nothing stored for <pad> can spread."""
        rows = F.embedding(ids, table_VD) * self.scale
        return rows.masked_fill((ids == PAD)[..., None], 0.0)

    def classify(self, hidden: Tensor) -> Tensor:
        """Hidden states [..., D] → logits [..., V]; tied: by the target's table (§3.4)."""
        return linear(hidden, self.target_weight) if self.tied else self.classifier(hidden)
