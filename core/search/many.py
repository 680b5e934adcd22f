"""Decode many sentences in batches of similar length."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from core.config import DecodeConfig
from core.data.batches import pad
from core.model.interface import Seq2Seq
from core.search.beam import Hypothesis, search
from core.text.tokenizer import EOS


def translate_ids(
    model: Seq2Seq,
    encoded: list[list[int]],
    decode: DecodeConfig,
    device: str,
    batch_tokens: int = 2048,
    on_progress: Callable[[int], object] = lambda count: None,
    lock: AbstractContextManager = nullcontext(),
    forced: tuple[int, ...] = (),
) -> list[list[Hypothesis]]:
    """Return hypotheses for each sentence's ids (without <eos>); an empty sentence gets only <eos>.

    Sentences of similar length share a batch of at most `batch_tokens` padded tokens. `on_progress`
    receives the number of newly finished sentences. `lock` is held for one batch at a time. The
    `forced` ids begin every translation.
    """
    results: list[list[Hypothesis]] = [[Hypothesis((EOS,), 0.0, 0.0)] for _ in encoded]
    pending: list[int] = []
    by_length = sorted((i for i, ids in enumerate(encoded) if ids), key=lambda i: len(encoded[i]))

    def flush() -> None:
        source = pad([[*encoded[i], EOS] for i in pending]).to(device)
        with lock:
            batch = search(model, source, decode, forced)
        for i, hypotheses in zip(pending, batch, strict=True):
            results[i] = hypotheses
        on_progress(len(pending))

    on_progress(len(encoded) - len(by_length))
    for i in by_length:
        if pending and (len(pending) + 1) * (len(encoded[i]) + 1) > batch_tokens:
            flush()
            pending = []
        pending.append(i)
    if pending:
        flush()
    return results
