"""The literature board: the file beside the checkpoints, and the networks tested on it."""

from __future__ import annotations

from app.state.models import CHECKPOINTS, cards
from app.state.results import cached
from core.atlas.claims.board import FILE, Board
from core.checkpoint.folder import Card

BOARD = CHECKPOINTS / FILE


def literature_board() -> Board | None:
    """Return the shipped board, read once for all sessions; None without a file.

    Raises ValueError, in one line, for an invalid file.
    """
    try:
        state = BOARD.stat()
    except FileNotFoundError:
        return None
    key = ("literature", str(BOARD), state.st_mtime_ns, state.st_size)
    return cached(key, lambda: Board.load(BOARD))


def tested(board: Board) -> dict[str, Card | None]:
    """Return the card of each network on a board, by name; None if its weights are missing."""
    here = {(card.folder.name, card.weights_sha256): card for card in cards().values()}
    return {name: here.get((name, sha256)) for name, sha256 in board.origin.weights.items()}


def other_weights(board: Board) -> list[str]:
    """Return the networks of a board whose checkpoint is missing here or has other weights."""
    return [name for name, card in tested(board).items() if card is None]
