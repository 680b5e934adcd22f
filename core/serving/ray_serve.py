"""Serve checkpoints with Ray Serve.

python -m core.serving.ray_serve FOLDER... [--replicas N] [--port PORT]

Its clients are in core.serving.remote.
Install Ray with the extra `ray`. Set up a cluster with Ray's own tools (`ray start`, RAY_ADDRESS);
each machine needs this project and the checkpoint folders at the same paths.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from core.checkpoint.folder import CheckpointError
from core.cluster import ROOT, connect
from core.command import Parser, main, whole_number
from core.serving.backend import SETTING, Backend, InspectRequest
from core.serving.local import LocalBackend
from core.serving.wire import from_bytes, to_bytes
from core.translator import Translator

_MAX_BYTES = 4 << 20  # of a request; a batch of the longest texts with edits is far smaller


class Server:
    """Answers serialised batches; loads each checkpoint on its first request."""

    def __init__(self, folders: Sequence[str]) -> None:
        self._folders = {Path(folder).name: Path(folder) for folder in folders}
        self._loaded: dict[tuple[str, ...], Backend] = {}

    def __call__(self, content: bytes) -> bytes:
        """Return the answers to a batch, or the exception that stopped it."""
        try:
            if len(content) > _MAX_BYTES:
                raise ValueError(f"{len(content):,} bytes, the limit is {_MAX_BYTES:,}")
            model, batch = from_bytes(content)
            backend = self._backend(*model)
            if all(isinstance(one, InspectRequest) for one in batch):
                return to_bytes(backend.inspect(batch))
            return to_bytes(backend.translate(batch))
        except Exception as error:
            return to_bytes(error)

    def _backend(self, name: str, config_sha256: str, architecture: str) -> Backend:
        key = name, config_sha256, architecture
        if key not in self._loaded:
            if name not in self._folders:
                raise CheckpointError(f"{name} is not among the checkpoints at {SETTING}")
            translator = Translator.load(self._folders[name])
            if translator.card.config_sha256 != config_sha256:
                raise CheckpointError(
                    f"the checkpoint {name} at {SETTING} is different: copy this one there"
                )
            if translator.card.architecture != architecture:
                translator = translator.other_implementation()
            self._loaded[key] = LocalBackend(translator)
        return self._loaded[key]


def run(arguments: Namespace) -> None:
    """Serve the checkpoints until stopped."""
    try:
        from ray import serve
        from starlette.requests import Request
        from starlette.responses import Response
    except ImportError:
        raise ValueError('Ray is not installed: pip install -e ".[ray]"') from None
    for folder in arguments.folders:
        Translator.load(folder)  # to report errors before Ray starts

    class Models:
        def __init__(self, folders: list[str]) -> None:
            from core.serving.ray_serve import Server

            self._answer = Server(folders)

        async def __call__(self, request: Request) -> Response:
            content = await request.body()
            return Response(await asyncio.to_thread(self._answer, content))

    connect()
    try:
        serve.start(http_options={"host": arguments.host, "port": arguments.port})
    except Exception as error:
        raise RuntimeError(f"Ray Serve did not start: {error}") from None
    folders = [str(Path(folder).resolve()) for folder in arguments.folders]
    paths = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    deployment: Any = serve.deployment(
        num_replicas=arguments.replicas,
        max_ongoing_requests=1,
        health_check_period_s=2,
        ray_actor_options={"runtime_env": {"env_vars": {"PYTHONPATH": paths}}},
    )(Models)
    serve.run(deployment.bind(folders), name="headlight")
    sys.stdout.write(f"set {SETTING}=http://{arguments.host}:{arguments.port}\n")
    sys.stdout.flush()
    while True:
        time.sleep(1)


def parser() -> Parser:
    p = Parser(prog="python -m core.serving.ray_serve", description=__doc__)
    p.path("folders", "a checkpoint folder", nargs="+", metavar="FOLDER")
    p.number(
        "--replicas", "number of servers that share the requests (%(default)s)", 1, 1000, default=1
    )
    p.add_argument("--host", default="127.0.0.1", help="address to listen on (%(default)s)")
    p.add_argument("--port", type=whole_number(1, 65_535), default=8000, help="port (%(default)s)")
    return p


if __name__ == "__main__":
    main(parser(), run)
