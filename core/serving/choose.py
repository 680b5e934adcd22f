"""Choose between a model in this process and one on a server, whose client is loaded if needed."""

from __future__ import annotations

import os

from core.serving.backend import SETTING, Backend
from core.serving.local import LocalBackend
from core.translator import Translator


def backend_of(translator: Translator) -> Backend:
    """Return the backend of a loaded model: remote if an address is set, otherwise local."""
    if address := os.environ.get(SETTING):
        from core.serving.ray_serve import RayBackend

        return RayBackend(address, translator.card)
    return LocalBackend(translator)
