"""A stand-in for Ray Serve: an HTTP server that answers as a replica would."""

import socket
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

from core.serving.ray_serve import Server


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


@contextmanager
def served(port: int, *folders: Path) -> Generator[None]:
    """Serve the checkpoints during the block."""
    answering = Server([str(folder) for folder in folders])

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            answer = answering(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", port), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield
        server.shutdown()
