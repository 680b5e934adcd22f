"""Commands under adverse conditions: signals, pipes, closed streams and invalid arguments."""

import dataclasses
import itertools
import os
import re
import select
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from core import analyse, benchmark, command, convert, evaluate, train, translate, verify
from core.translator import InputError, Translation, Translator

COMMANDS = (analyse, benchmark, convert, evaluate, train, translate, verify)


SIGNALLED = """
import os, signal
from core import command

class Last:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGTERM)

def run(arguments):
    print("done", flush=True)
    {then}

command.main(command.Parser(), run)
"""
SWALLOWS_EXCEPTIONS = """
import os, signal
try:
    os.kill(os.getpid(), signal.SIGINT)
except BaseException:
    pass
"""
WHERE = {
    "a destructor": ("Last()", (1, b"stopped\n")),
    "a destructor, all done": ("global last; last = Last()", (0, b"")),
    "an import": ("import drops", (1, b"stopped\n")),
}


@pytest.mark.parametrize("where", WHERE)
def test_a_signal_where_exceptions_are_swallowed_ends_with_one_line(where, tmp_path):
    then, end = WHERE[where]
    (tmp_path / "drops.py").write_text(SWALLOWS_EXCEPTIONS)
    ended = subprocess.run(
        [sys.executable, "-c", SIGNALLED.format(then=then)],
        env={**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{Path.cwd()}"},
        capture_output=True,
        timeout=60,
    )
    assert (ended.returncode, ended.stderr) == end
    assert ended.stdout == b"done\n"


def fails(lines, module, *arguments, says):
    """Check that a command ends with exit code 1 and one line."""
    code, _, error = lines(module, *arguments)
    assert code == 1 and error.startswith("error: ") and error.count("\n") == 1, error
    assert says in error


class Started:
    """A command between three pipes, in a fork of this process, so torch is already imported."""

    def __init__(self, module, *arguments: object, stdin: int | None = None, closed: str = ""):
        pipes = [os.pipe() for _ in range(3)]
        self._number = os.fork()
        if self._number == 0:
            status = 70
            try:
                os.dup2(pipes[0][0] if stdin is None else stdin, 0)
                for descriptor in (1, 2):
                    os.dup2(pipes[descriptor][1], descriptor)
                for pipe in pipes:
                    for end in pipe:
                        os.close(end)
                for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
                    mode = "r" if descriptor == 0 else "w"
                    stream = None if name == closed else os.fdopen(descriptor, mode, 1)
                    setattr(sys, name, stream)
                    setattr(sys, f"__{name}__", stream)
                sys.argv = [module.__name__, *map(str, arguments)]
                signal.signal(signal.SIGINT, signal.default_int_handler)
                signal.signal(signal.SIGTERM, signal.SIG_DFL)
                command.main(module.parser(), module.run)
                status = 0
            except SystemExit as end:
                status = 1
                os.write(2, f"{end.code}\n".encode())
            finally:
                os._exit(status)
        for end in (pipes[0][0], pipes[1][1], pipes[2][1]):
            os.close(end)
        self.stdin = os.fdopen(pipes[0][1], "wb", buffering=0)
        self.stdout, self.stderr = (os.fdopen(pipe[0], "rb") for pipe in pipes[1:])

    def line(self) -> bytes:
        """Return the next line of output; fail if none comes within a minute."""
        assert select.select([self.stdout], [], [], 60)[0], "nothing was written"
        return self.stdout.readline()

    def send(self, number: int) -> None:
        os.kill(self._number, number)

    def end(self, content: bytes = b"") -> tuple[int, bytes, bytes]:
        """Send the rest of the input; return the exit code and the remaining output."""
        self.stdin.write(content)
        self.stdin.close()
        with self.stdout, self.stderr:
            out, error = self.stdout.read(), self.stderr.read()
        return os.waitstatus_to_exitcode(os.waitpid(self._number, 0)[1]), out, error


@pytest.mark.parametrize(
    ("module", "arguments"),
    [
        *((train, ["--threads", value]) for value in (0, 100_000, "two")),
        *((train, ["--seed", value]) for value in (2**70, -1)),
        *((train, [option, 0]) for option in ("--max-steps", "--save-every")),
        *((train, ["--keep-epochs", value]) for value in ("1,0", "1,,2")),
        *((translate, [option, 0]) for option in ("--batch-tokens", "--beam")),
        *((evaluate, [option, 0]) for option in ("--beam", "--joined")),
        (analyse, ["importance", "--first", -3]),
        *((analyse, ["words", option, 0]) for option in ("--tokens", "--largest")),
        (translate, ["--beam", 17]),
        (verify, ["--no-such-option", "with\ntwo lines"]),
    ],
    ids=str,
)
def test_invalid_arguments_are_rejected_before_any_work(lines, module, arguments):
    code, out, error = lines(module, *arguments)
    assert (code, out) == (2, "")
    assert error.startswith("error: ") and error.count("\n") == 1, error
    assert str(arguments[-2]) in error
    assert f"python -m core.{module.__name__.split('.')[1]}" in error and "--help" in error


def test_the_largest_arguments_are_accepted():
    required = ["--recipe", "smoke", "--out", "x"]
    parsed = train.parser().parse_args([*required, "--seed", str(2**32 - 1), "--threads", "256"])
    assert (parsed.seed, parsed.threads) == (2**32 - 1, 256)


@pytest.mark.parametrize("place", ["file/scores.json", "folder"])
def test_an_unwritable_json_file_is_rejected_before_any_work(lines, monkeypatch, tmp_path, place):
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    needed = {
        analyse: ["importance", "--src", "x", "--ref", "x", "--checkpoint", "nowhere"],
        benchmark: ["why"],
        convert: ["--from", "marian", "x", "--out", "x-de-en"],
        evaluate: ["--checkpoint", "nowhere"],
        verify: [],
    }
    monkeypatch.setattr("core.verify.checklist", None)
    says = f"--json {tmp_path / place} cannot be written"
    for module, arguments in needed.items():
        fails(lines, module, *arguments, "--json", tmp_path / place, says=says)
    assert {f.name for f in tmp_path.iterdir()} == {"file", "folder"}


def test_what_is_missing_or_unwritable_is_rejected_before_any_work(lines, tmp_path):
    for module in (translate, evaluate):
        fails(lines, module, "--checkpoint", "nowhere", says="nowhere/config.json is missing")
    (tmp_path / "file").touch()
    given = ["--recipe", "smoke", "--data", "nowhere", "--out"]
    for out in (tmp_path / "file/out", "/proc/none/out"):
        fails(lines, train, *given, out, says=f"--out {out}")
    fails(lines, train, *given, tmp_path / "a/b", says="nowhere/multi30k/train.de.gz does not")
    assert not (tmp_path / "a").exists()


def test_a_validation_text_that_is_too_long_is_rejected_before_training(
    lines, data, tmp_path, monkeypatch
):
    monkeypatch.setattr("core.training.job.train", None)
    arguments = ["--recipe", "smoke", "--out", tmp_path / "c"]
    for option, split in (("src", "train.de"), ("ref", "train.en"), ("val-src", "val.de")):
        arguments += [f"--{option}", data / "multi30k" / split]
    text = (data / "multi30k/val.en").read_text().splitlines()
    text[0], text[3] = "", "dog " * 400  # the first is skipped, but counted
    (tmp_path / "val").write_text("\n".join(text) + "\n")
    says = "validation pair 4 has 401 tokens with <eos>: the limit is 256"
    fails(lines, train, *arguments, "--val-ref", tmp_path / "val", says=says)
    assert not (tmp_path / "c").exists()


def test_json_is_written_to_pipes_links_and_devices(tmp_path):
    """Pipes, links and devices are not replaced."""
    expected = b'{\n "a": 1\n}\n'
    os.mkfifo(tmp_path / "pipe")
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append((tmp_path / "pipe").read_bytes()))
    reader.start()
    command.refuse_unwritable("--json", tmp_path / "pipe")
    command.write_result(tmp_path / "pipe", {"a": 1})
    reader.join(10)
    assert read == [expected] and (tmp_path / "pipe").is_fifo()

    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere" / "scores.json")
    for _ in range(2):  # without and with a target
        command.refuse_unwritable("--json", tmp_path / "link")
        command.write_result(tmp_path / "link", {"a": 1})
        assert (tmp_path / "link").is_symlink()
        assert (tmp_path / "elsewhere/scores.json").read_bytes() == expected

    (tmp_path / "nothing").symlink_to(os.devnull)
    command.write_result(tmp_path / "nothing", {"a": 1})
    assert (tmp_path / "nothing").is_symlink() and Path(os.devnull).is_char_device()


@pytest.mark.parametrize("device", ["/dev/stdout", "/dev/stderr"])
@pytest.mark.parametrize("kind", ["pipe", "file"])
def test_json_is_appended_to_standard_streams(tmp_path, device, kind):
    code = (
        "import sys; from pathlib import Path; from core.command import write_result;"
        f"s = sys.std{device[8:]}; s.write('before\\n');"
        f"write_result(Path({device!r}), {{'a': 1}}); s.write('behind\\n')"
    )
    target = subprocess.PIPE if kind == "pipe" else (tmp_path / "file").open("w+b")
    done = subprocess.run([sys.executable, "-c", code], **{f"std{device[8:]}": target}, check=True)
    written = done.stdout or done.stderr
    if kind == "file":
        target.seek(0)
        written = target.read()
        target.close()
    assert written == b'before\n{\n "a": 1\n}\nbehind\n'
    assert Path(device).is_symlink()


def test_a_second_signal_skips_the_cleanup():
    code = (
        "import sys, time; from core import command; sys.argv = ['x']\n"
        "def run(_):\n"
        "    try:\n"
        "        print('ready', flush=True)\n"
        "        time.sleep(60)\n"
        "    finally:\n"
        "        print('cleaning', flush=True)\n"
        "        time.sleep(60)\n"
        "command.main(command.Parser(), run)"
    )
    done = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert done.stdout.readline() == b"ready\n"
    done.send_signal(signal.SIGTERM)
    assert done.stdout.readline() == b"cleaning\n"
    done.send_signal(signal.SIGINT)
    _, error = done.communicate(timeout=10)
    assert (done.returncode, error) == (1, b"stopped\n")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_during_imports_ends_with_one_line(number):
    code = (
        "import sys; sys.argv = ['-m']; import core; sys.argv = ['-c'];"
        f"import os; os.kill(os.getpid(), {int(number)}); import time; time.sleep(60)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (1, b"", b"stopped\n")


def test_every_command_ends_on_a_signal_with_one_line(lines, monkeypatch):
    """Each signal arrives in the middle of the work."""
    arguments = {
        analyse: ["importance", "--src", "x", "--ref", "x", "--checkpoint", "x"],
        benchmark: ["why"],
        convert: ["--from", "marian", "x", "--out", "x-de-en"],
        evaluate: ["--checkpoint", "x"],
        train: ["--recipe", "smoke", "--out", "x"],
        translate: ["--checkpoint", "x"],
        verify: ["--checkpoint", "x"],
    }
    assert set(arguments) == set(COMMANDS)
    for module, number in itertools.product(COMMANDS, command._SIGNALS):

        def interrupted(*_: object, number=number) -> None:
            os.kill(os.getpid(), number)
            time.sleep(10)

        for name in ("load", "pick_device"):
            if hasattr(module, name):
                monkeypatch.setattr(module, name, interrupted)
        monkeypatch.setattr(benchmark, "run", interrupted)
        monkeypatch.setattr("core.training.job.pick_device", interrupted)
        monkeypatch.setattr("core.foreign.importing.import_network", interrupted)
        monkeypatch.setattr(translate, "Translator", type("T", (), {"load": interrupted}))
        assert lines(module, *arguments[module]) == (1, "", "stopped\n"), module


@pytest.fixture
def translating(translating_folder):
    """The translate command on a small network, with batches of a few lines."""

    def start(**streams) -> Started:
        given = ("--checkpoint", translating_folder, "--batch-tokens", 24, "--device", "cpu")
        return Started(translate, *given, **streams)

    return start


SOURCES = ["Ein Hund läuft über die Wiese.", "Eine Frau liest ein Buch.", "Ein Mann fährt Fahrrad."]


def test_translate_answers_each_line_as_it_arrives(translating, translating_folder):
    """A program may wait for each answer; SIGTERM ends the command with one line."""
    expected = [t.text for t in Translator.load(translating_folder, "cpu").translate(SOURCES)]
    done = translating()
    for source, translation in zip(SOURCES, expected, strict=True):
        done.stdin.write(source.encode() + b"\n")
        assert done.line().decode().removesuffix("\n") == translation
    done.send(signal.SIGTERM)
    assert done.end() == (1, b"", b"stopped\n")


def test_translate_loses_no_finished_line(translating, translating_folder, tmp_path):
    """The command is stopped after the first of 2,100 lines."""
    many = SOURCES * 700
    (tmp_path / "in").write_text("\n".join(many) + "\n")
    expected = [t.text for t in Translator.load(translating_folder, "cpu").translate(SOURCES)]
    with (tmp_path / "in").open("rb") as file:
        done = translating(stdin=file.fileno())
    first = done.line()
    done.send(signal.SIGINT)
    code, written, error = done.end()
    got = (first + written).decode().removesuffix("\n").split("\n")
    assert (code, error) == (1, b"stopped\n")
    assert 0 < len(got) < len(many) and got == (expected * 700)[: len(got)]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("Ein Hund.\nEin Mann.\nüber\n".encode("latin-1"), "standard input line 3 is not UTF-8"),
        (b"Ein Hund.\n\0\n", "standard input line 2 contains a NUL byte"),
        (b"Ein Hund.\n" + b"Hund " * 300 + b"\n", "sentence 2 has"),
    ],
)
def test_invalid_input_is_rejected_before_any_output(translating, tmp_path, content, message):
    (tmp_path / "in").write_bytes(content)
    with (tmp_path / "in").open() as file:
        code, out, error = translating(stdin=file.fileno()).end()
    assert (code, out, error.count(b"\n")) == (1, b"", 1)
    assert error.decode().startswith(f"error: {message}"), error


@pytest.mark.parametrize("closed", ["stdin", "stdout"])
def test_translate_reports_a_closed_stream(translating, closed):
    name = {"stdin": "input", "stdout": "output"}[closed]
    code, out, error = translating(closed=closed).end()
    assert (code, out, error.count(b"\n")) == (1, b"", 1)
    assert error.decode().startswith(f"error: standard {name} is closed")


@pytest.mark.parametrize(
    ("text", "lines", "warned"),
    [
        ("", [], []),
        ("\n \n\t\nEin Mann.\n", ["", "", "", "Ein Mann."], ["line 3"]),
        ("Eine Frau\u2028liest.\nEin Hund.", ["Eine Frau\u2028liest.", "Ein Hund."], []),
    ],
)
def test_translate_is_line_for_line(translating, translating_folder, text, lines, warned):
    code, out, error = translating().end(text.encode())
    expected = Translator.load(translating_folder, "cpu").translate(lines)
    assert (code, [each.split(":")[0] for each in error.decode().splitlines()]) == (0, warned)
    assert out.decode() == "".join(translation.text + "\n" for translation in expected)


def test_a_closed_output_pipe_ends_with_one_line():
    code = (
        "import sys; from core import command; sys.argv = ['x'];"
        "command.main(command.Parser(), lambda _: print('words'))"
    )
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run([sys.executable, "-c", code], stdout=writing, stderr=subprocess.PIPE)
    os.close(writing)
    assert (done.returncode, done.stderr) == (1, b"error: [Errno 32] Broken pipe\n")


def test_a_pipe_yields_the_lines_that_have_arrived(tmp_path):
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as stream:
        found = translate.read_available(stream)
        os.write(writing, b"a\nb\nhalf")
        assert next(found) == [b"a\n", b"b\n"]
        os.write(writing, b" of it\nlast")
        assert next(found) == [b"half of it\n"]
        os.close(writing)
        assert list(found) == [[b"last"]]
    (tmp_path / "f").write_bytes(b"a\n" * 700_000)
    with (tmp_path / "f").open("rb") as stream:
        assert [len(lines) for lines in translate.read_available(stream)] == [700_000]


@pytest.mark.parametrize("half", ["\ud800", "\udfff", "\ud83d\ude00"])
def test_a_lone_surrogate_gives_one_clear_line(checkpoint_folder, half):
    translator = Translator.load(checkpoint_folder, "cpu")
    message = rf"character 4 is half a surrogate pair \(U\+{ord(half[0]):04X}\), .*: delete it"
    text = f"Ein{half} Hund"
    for ask in (
        lambda: translator.translate(["Ein Mann.", text]),
        lambda: translator.inspect(text),
        lambda: translator.inspect("Ein Mann.", text),
        lambda: translator.inspect_many([text]),
        lambda: translator.tokens(text, "source"),
    ):
        with pytest.raises(InputError, match=message) as caught:
            ask()
        assert str(caught.value).isprintable()


def test_an_invalid_alignment_is_rejected_before_any_pass(
    lines, checkpoint_folder, tmp_path, monkeypatch
):
    monkeypatch.setattr("core.experiments.aligning.capture", None)
    given = ["--checkpoint", checkpoint_folder]
    for name, text in {"src": "Ein Hund", "ref": "a dog", "gold": "0-0"}.items():
        (tmp_path / name).write_text(f"{text}\n{text.replace('-0', '-9')}\n")
        given += [f"--{name}", tmp_path / name]
    says = "sentence 2: its alignment links word 0 to word 9"
    fails(lines, analyse, "alignment", *given, says=says)


def test_quality_warnings_go_to_standard_error_with_line_numbers():
    root = Path(__file__).parents[2]
    lines = ["Ein Hund läuft.", "...", "", "EIN MANN SPIELT FUSSBALL."]
    options = ["--device", "cpu", "--beam", "1", "--batch-tokens", "8"]
    options += ["--checkpoint", str(root / "checkpoints/captions-de-en")]
    text = ("\ufeff" + "\n".join(lines) + "\n").encode()
    program = [sys.executable, "-m", "core.translate", *options]
    done = subprocess.run(program, cwd=root, input=text, capture_output=True)
    assert done.returncode == 0
    warnings = done.stderr.decode().splitlines()
    numbers = [line.split(":")[0] for line in warnings if line.startswith("line ")]
    assert numbers == ["line 2", "line 4"]
    assert "has no word" in warnings[0] and "in capitals" in warnings[1]
    assert done.stdout.count(b"\n") == len(lines) and b"line" not in done.stdout
    plain = Started(translate, *options).end(text.removeprefix(b"\xef\xbb\xbf"))
    assert plain[:2] == (0, done.stdout), "the byte-order mark is ignored"


def test_an_empty_translation_of_a_line_with_text_is_said(translating, monkeypatch):
    """As of a T5 that was not trained to translate: its sentinels have no text."""
    original = Translator.translate

    def emptied(*given: Any) -> list[Translation]:
        return [dataclasses.replace(one, text="") for one in original(*given)]

    monkeypatch.setattr(Translator, "translate", emptied)
    code, out, error = translating().end(b"Ein Mann.\n\n \n")
    assert (code, out) == (0, b"\n\n\n")
    assert re.fullmatch(r"line 1: (.*; )?the translation is empty: .* only\n", error.decode())
