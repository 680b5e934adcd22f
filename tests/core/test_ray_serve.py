"""A remote model gives the same answers as a local one, and its server may die and come back."""

import io
import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import numpy as np
import pytest

from app.benchmark.browser import free_port
from core.benchmarks.shards import descendants
from core.checkpoint.folder import CheckpointError
from core.config import DecodeConfig
from core.record.edits import EditError, Edits
from core.serving.backend import MAX_BATCH, SETTING, InspectRequest, TranslateRequest
from core.serving.local import LocalBackend, backend_of
from core.serving.ray_serve import Server
from core.serving.remote import LostError, RemoteBackend
from core.serving.wire import from_bytes, to_bytes
from core.translator import InputError, Translator

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "checkpoints/captions-de-en"
ASKED = [
    InspectRequest("Ein Hund läuft.", activations=True),
    InspectRequest("Zwei Männer.", target="Two men."),
    InspectRequest("Zwei Männer.", edits=Edits(heads_off=frozenset({("cross", 2, 0)}))),
    InspectRequest("Hallo", decode=DecodeConfig(beam=1), target_ids=(7, 2)),
    InspectRequest("word " * 200),
]


@pytest.fixture(scope="module")
def translator() -> Translator:
    return Translator.load(FOLDER, device="cpu")


def test_messages_round_trip(translator):
    (record,) = LocalBackend(translator).inspect(ASKED[:1])
    sent = [*ASKED, TranslateRequest("a \ud800 b"), *translator.translate(["Ein Hund."])]
    assert from_bytes(to_bytes(sent)) == tuple(sent)
    arrived = from_bytes(to_bytes(record))
    assert arrived.id == record.id and arrived.checks == record.checks
    for name in ("encoder", "cross", "log_probs"):
        assert np.array_equal(getattr(arrived, name), getattr(record, name))
    scores = record.activations.cross_scores, arrived.activations.cross_scores
    assert np.array_equal(*scores)
    for error in (InputError("a"), EditError("b"), MemoryError("c")):
        found = from_bytes(to_bytes(error))
        assert type(found) is type(error) and str(found) == str(error)
    assert type(from_bytes(to_bytes(KeyError("d")))) is RuntimeError


class Bomb:
    def __reduce__(self):
        return os.mkdir, ("never",)


def test_unknown_messages_are_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    unknown = io.BytesIO()
    np.savez(unknown, tree=np.frombuffer(b'{"is": "Path", "of": {}}', np.uint8))
    bomb = io.BytesIO()
    np.savez(bomb, tree=np.array([Bomb()], dtype=object))
    cut = to_bytes(ASKED)[:-30]
    for content in (b"", b"x", pickle.dumps(Bomb()), unknown.getvalue(), bomb.getvalue(), cut):
        with pytest.raises(ValueError, match="not a backend message"):
            from_bytes(content)
        assert isinstance(from_bytes(Server([])(content)), ValueError)
    assert not list(tmp_path.iterdir())
    with pytest.raises(TypeError, match="Path cannot be serialised"):
        to_bytes(tmp_path)


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture
def backend(port, translator, monkeypatch) -> RemoteBackend:
    monkeypatch.setenv(SETTING, f"http://127.0.0.1:{port}")
    found = backend_of(translator)
    assert isinstance(found, RemoteBackend)
    return found


def assert_same_answers(backend: RemoteBackend, translator: Translator) -> None:
    local = LocalBackend(translator)
    for here, there in zip(local.inspect(ASKED), backend.inspect(ASKED), strict=True):
        if isinstance(here, Exception):
            assert type(here) is type(there) and str(here) == str(there)
        else:
            assert here.id == there.id and here.edits == there.edits
            assert np.allclose(here.cross, there.cross, atol=1e-5)
    texts = [TranslateRequest("Ein Hund läuft."), TranslateRequest("a" * 10_000)]
    (here, _), (there, refused) = local.translate(texts), backend.translate(texts)
    assert here.text == there.text and isinstance(refused, InputError)


def assert_lost(backend: RemoteBackend) -> None:
    with pytest.raises(LostError) as caught:
        backend.translate([TranslateRequest("Ein Hund.")])
    line = str(caught.value)
    assert SETTING in line and "try again" in line and line.isprintable() and len(line) < 250


def test_the_client_survives_the_loss_of_the_server(backend, translator, port):
    assert_lost(backend)
    for _ in range(2):
        with served(port, FOLDER):
            assert_same_answers(backend, translator)
        assert_lost(backend)


def test_a_different_model_on_the_server_is_refused(port, translator, monkeypatch):
    address = f"http://127.0.0.1:{port}"
    with served(port, FOLDER):
        twin = translator.other_implementation()
        assert RemoteBackend(address, twin.card).inspect(ASKED[:1])[0].source_text
        for changed, says in (
            ({"sha256": "0" * 64}, "is different"),
            ({"folder": Path("x/other-de-en")}, "not among"),
        ):
            with pytest.raises(CheckpointError, match=says):
                RemoteBackend(address, replace(translator.card, **changed)).inspect(ASKED[:1])


def test_the_backend_follows_the_setting(translator, monkeypatch):
    monkeypatch.delenv(SETTING, raising=False)
    assert isinstance(backend_of(translator), LocalBackend)
    code = "import sys, core.serving.local; assert 'core.serving.remote' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)
    for odd in ("127.0.0.1:8000", "x", "http://"):
        monkeypatch.setenv(SETTING, odd)
        assert_lost(backend_of(translator))


@contextmanager
def ray_serve(port: int) -> Generator[subprocess.Popen]:
    """Start the command with its own Ray, and wait until it serves."""
    called = [sys.executable, "-m", "core.serving.ray_serve", str(FOLDER), "--port", str(port)]
    usual = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0", "PYTHONPATH": str(ROOT)}
    command = subprocess.Popen(
        called, cwd=ROOT, env=usual, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        assert command.stdout.readline().startswith(f"set {SETTING}=")
        yield command
    finally:
        killed(command)


def killed(command: subprocess.Popen) -> None:
    """Kill all processes of the command."""
    if command.poll() is None:
        for number in descendants(command.pid):
            with suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)
        command.wait()


def replicas(command: subprocess.Popen) -> list[int]:
    return [
        number
        for number in descendants(command.pid)
        if "ServeReplica" in Path(f"/proc/{number}/cmdline").read_text()
    ]


def until_answered(backend: RemoteBackend) -> None:
    for _ in range(360):
        with suppress(LostError):
            backend.translate([TranslateRequest("Ein Hund.")])
            return
        time.sleep(0.5)
    pytest.fail("no answer within three minutes")


@pytest.mark.skipif(sys.platform != "linux", reason="replicas are found by their names in /proc")
def test_ray_answers_is_killed_and_comes_back(backend, translator, port):
    pytest.importorskip("ray")
    with ray_serve(port) as command:
        assert_same_answers(backend, translator)
        (replica,) = replicas(command)
        os.kill(replica, signal.SIGKILL)
        until_answered(backend)  # Ray starts another
        assert replicas(command) != [replica]
        killed(command)
        assert_lost(backend)
    with ray_serve(port):
        assert_same_answers(backend, translator)


TEXTS = "Ein Hund läuft.|Zwei junge Männer spielen im Park Fußball.|Hallo|Eine Frau liest.".split(
    "|"
)


class Counted(Translator):
    """A translator that records the batch sizes of its calls."""

    def inspect(self, *given, **named):
        self.batches.append(1)
        return super().inspect(*given, **named)

    def inspect_many(self, sources, *given, **named):
        self.batches.append(len(sources))
        return super().inspect_many(sources, *given, **named)


@pytest.fixture
def counted() -> Counted:
    found = Counted.load(FOLDER, device="cpu")
    found.batches = []
    return found


MIXED = [
    *(InspectRequest(text) for text in TEXTS),
    InspectRequest(TEXTS[0], decode=DecodeConfig(beam=1)),
    InspectRequest(TEXTS[1], decode=DecodeConfig(beam=1)),
    InspectRequest(TEXTS[0], target="A dog walks."),
    InspectRequest(TEXTS[1], target=""),
    InspectRequest(TEXTS[0], edits=Edits(heads_off=frozenset({("cross", 0, 1)}))),
    InspectRequest(TEXTS[0], target_ids=(5, 6)),
]


def test_an_answer_in_a_batch_is_the_answer_alone(translator, counted):
    answers = LocalBackend(counted).inspect(MIXED)
    assert counted.batches == [4, 2, 2, 1, 1]
    for request, record in zip(MIXED, answers, strict=True):
        alone = translator.inspect(
            request.source,
            request.target,
            request.edits,
            decode=request.decode,
            target_ids=request.target_ids,
        )
        assert (record.source, record.target_out) == (alone.source, alone.target_out)
        assert (record.search, record.edits) == (alone.search, alone.edits)
        assert [h.ids for h in record.hypotheses] == [h.ids for h in alone.hypotheses]
        assert all(check.passed for check in record.checks)
        assert np.allclose(record.cross, alone.cross, atol=1e-5)
        assert np.allclose(record.log_probs, alone.log_probs, atol=1e-4)


def test_an_invalid_request_affects_only_itself(counted):
    wrong = {1: "word " * 200, 3: "", 5: "half \ud800"}
    requests = [InspectRequest(wrong.get(i, TEXTS[i % 4])) for i in range(MAX_BATCH)]
    answers = LocalBackend(counted).inspect(requests)
    for i, answer in enumerate(answers):
        if i in wrong:
            assert isinstance(answer, InputError) and not str(answer).startswith("sentence")
        else:
            assert answer.source_text == requests[i].source


def test_texts_are_translated_together(translator):
    requests = [TranslateRequest(text) for text in TEXTS]
    requests += [TranslateRequest(TEXTS[0], DecodeConfig(beam=1)), TranslateRequest("a" * 10_000)]
    *answers, refused = LocalBackend(translator).translate(requests)
    for request, answer in zip(requests, answers, strict=False):
        (alone,) = translator.translate([request.source], request.decode)
        assert [h.ids for h in answer.hypotheses] == [h.ids for h in alone.hypotheses]
    assert isinstance(refused, InputError)


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
