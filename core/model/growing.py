"""A tensor that grows at its end without being copied, as the keys and values of a search do."""

from dataclasses import dataclass

from torch import Tensor


class _Buffer:
    """Room for a tensor [N, C, …]; the first `used` of its C places are written."""

    def __init__(self, tensor: Tensor, used: int):
        self.tensor = tensor
        self.used = used


@dataclass(frozen=True)
class Growing:
    """A tensor [N, M, …] to which rows can be appended, at inference; a value all the same.

    What is appended is written behind the M rows, into the room of the same buffer. Where there is
    too little, or what was appended to the same value before stands there, the rows move to a
    buffer twice as large: so a value never changes, and a row is seldom copied.
    """

    _buffer: _Buffer
    length: int

    @classmethod
    def of(cls, tensor: Tensor) -> "Growing":
        """The rows of tensor [N, M, …], to begin with."""
        return cls(_Buffer(tensor, tensor.shape[1]), tensor.shape[1])

    @property
    def tensor(self) -> Tensor:
        """[N, M, …], a view."""
        return self._buffer.tensor[:, : self.length]

    def append(self, rows: Tensor) -> "Growing":
        """These rows, and after them rows [N, K, …]."""
        buffer, length = self._buffer, self.length + rows.shape[1]
        if buffer.used > self.length or length > buffer.tensor.shape[1]:
            buffer = _Buffer(rows.new_empty(len(rows), 2 * length, *rows.shape[2:]), self.length)
            buffer.tensor[:, : self.length] = self.tensor
        buffer.tensor[:, self.length : length] = rows
        buffer.used = length
        return Growing(buffer, length)
