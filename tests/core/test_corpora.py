"""Corpora are downloaded once and verified, read from a folder, or rejected in one line."""

import bz2
import dataclasses
import gzip
import io
import lzma
import os
import threading
import urllib.error
import urllib.request
import zipfile
from pathlib import Path
from unittest.mock import Mock

import pytest

from core.data import corpora, tatoeba, wmt
from core.data.corpora import read_pairs
from core.data.text_files import LinePairs, read_lines, refuse_pipes
from core.files import sha256


@pytest.fixture
def home(tmp_path, monkeypatch):
    """Serve the returned files in place of the corpus's site; also return the downloaded URLs."""
    files = {
        f"val.{language}.gz": gzip.compress(text.encode(), mtime=0)
        for language, text in (("de", "Ein Hund.\nEin Mann.\n"), ("en", "A dog.\nA man.\n"))
    }
    downloads = []

    def urlopen(url, timeout):
        downloads.append(url)
        name = url.rsplit("/", 1)[1]
        if name not in files:
            raise urllib.error.URLError("no such host")
        return io.BytesIO(files[name])

    digests = {name: sha256(content) for name, content in files.items()}
    original = corpora.CORPORA["multi30k"]
    pretend = dataclasses.replace(original, splits=("val",), sha256=digests)
    monkeypatch.setitem(corpora.CORPORA, "multi30k", pretend)
    monkeypatch.setattr(urllib.request, "urlopen", urlopen)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return files, downloads


def test_files_are_downloaded_once(home):
    _, downloads = home
    for _ in range(2):
        pairs = read_pairs("multi30k", "val", "de", "en")
        assert pairs == [("Ein Hund.", "A dog."), ("Ein Mann.", "A man.")]
    assert len(downloads) == 2
    assert all(url.startswith("https://raw.githubusercontent.com/multi30k/") for url in downloads)


def test_a_changed_cache_is_rejected(home, tmp_path):
    read_pairs("multi30k", "val", "de", "en")
    (tmp_path / "headlight/multi30k/val.de.gz").write_bytes(b"changed")
    with pytest.raises(ValueError, match="has changed since the download"):
        read_pairs("multi30k", "val", "de", "en")


def test_a_users_folder_is_read_gzipped_or_plain(home, tmp_path):
    files, downloads = home
    (tmp_path / "multi30k").mkdir()
    (tmp_path / "multi30k/val.de.gz").write_bytes(files["val.de.gz"])
    (tmp_path / "multi30k/val.en").write_text("A dog.\nA man.\n")
    assert read_pairs("multi30k", "val", "en", "de", tmp_path)[1] == ("A man.", "Ein Mann.")
    assert not downloads


@pytest.mark.parametrize(
    ("asked", "served", "message"),
    [
        (("multi30k", "val"), {"val.de.gz": gzip.compress(b"Else.\n")}, "SHA-256 .* not kept"),
        (("multi30k", "val"), {}, "cannot download .*: check the network or pass --data"),
        (("multi30k", "val", "/nowhere"), {}, "put .* into the --data folder"),
        (("wmt", "val"), {}, "choose one of wmt13"),
        (("no", "val"), {}, "choose one of multi30k, tatoeba"),
        (("iwslt2016", "train"), {}, "cannot be downloaded: unpack"),
    ],
)
def test_a_corpus_that_cannot_be_had_is_refused(home, tmp_path, asked, served, message):
    files, _ = home
    files.clear()
    files.update(served)
    name, split, *folder = asked
    with pytest.raises(ValueError, match=message):
        read_pairs(name, split, "de", "en", *map(Path, folder))
    assert not list(tmp_path.rglob("val.de.gz*"))


def test_only_a_newline_ends_a_line(tmp_path):
    file = tmp_path / "x"
    file.write_bytes("a\u2028b\x85c\r\n\nlast".encode())
    assert read_lines(file) == ["a\u2028b\x85c\r", "", "last"]


@pytest.mark.parametrize("compress", [bytes, gzip.compress, lzma.compress, bz2.compress])
@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"])
def test_byte_order_marks_are_dropped_and_compressed_files_are_read(tmp_path, compress, bom):
    """In later lines, U+FEFF is an ordinary character."""
    (tmp_path / "x").write_bytes(compress(bom + "eins\nzwei\n\ufeffdrei".encode()))
    assert read_lines(tmp_path / "x") == ["eins", "zwei", "\ufeffdrei"]


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b"\xff\xfee\0i\0n\0", "is UTF-16: convert it"),
        (b"\xfe\xff\0e\0i\0n", "is UTF-16: convert it"),
        (b"\x28\xb5\x2f\xfd\0", "is compressed with zstd: unpack it first"),
        (b"eins\rzwei\rdrei\r", r"ends its lines with \\r only: convert them"),
        (lzma.compress(b"eins")[:-6], "cannot be read"),
        (bz2.compress(b"eins")[:-6], "cannot be read"),
        (b"BZh9 is no text", "cannot be read"),
        (gzip.compress(b"text" * 100, mtime=0)[:-9], "cannot be read"),
        (b"Frauen\n" + "Männer\n".encode("latin-1"), r"line 2 is not UTF-8 \(byte 1\): convert it"),
        ("ein\nzwei\n".encode("utf-16-le"), "line 1 contains a NUL byte: .* convert it"),
    ],
)
def test_unreadable_files_give_one_line(tmp_path, content, line):
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(ValueError, match=line) as caught:
        read_lines(tmp_path / "x")
    assert "\n" not in str(caught.value)


def piped(content: bytes) -> tuple[Path, threading.Thread]:
    """Return the path of a pipe with this content, and the thread that writes it."""
    reader, writer = os.pipe()

    def write() -> None:
        with os.fdopen(writer, "wb") as stream:
            stream.write(content)

    thread = threading.Thread(target=write)
    thread.start()
    return Path(f"/dev/fd/{reader}"), thread


@pytest.mark.skipif(not Path("/dev/fd").is_dir(), reason="no /dev/fd here")
@pytest.mark.parametrize("compress", [bytes, gzip.compress])
def test_pipes_are_read_completely(compress):
    lines = [f"line {i:05}" for i in range(3000)]
    (left, one), (right, other) = (piped(compress("\n".join(lines).encode())) for _ in range(2))
    assert list(LinePairs(left, right)) == [(line, line) for line in lines]
    for thread, path in ((one, left), (other, right)):
        thread.join()
        os.close(int(path.name))


@pytest.mark.skipif(not Path("/dev/fd").is_dir(), reason="no /dev/fd here")
def test_one_pipe_cannot_be_both_sides_and_training_rejects_pipes():
    path, thread = piped(b"x\n")
    with pytest.raises(ValueError, match="is the source and the target: give two files"):
        list(LinePairs(path, path))
    with pytest.raises(
        ValueError, match="is no regular file, and training reads it more than once"
    ):
        refuse_pipes([path], "training")
    thread.join()
    os.close(int(path.name))


@pytest.mark.parametrize(("left", "right"), [(3, 2), (2, 5), (0, 1)])
def test_unequal_files_report_both_counts(tmp_path, left, right):
    (tmp_path / "a").write_text("x\n" * left)
    (tmp_path / "b").write_text("x\n" * right)
    with pytest.raises(ValueError, match=f"/a has {left} lines and .*/b has {right}: "):
        list(LinePairs(tmp_path / "a", tmp_path / "b"))


def test_pairs_are_streamed_and_can_be_read_again(tmp_path):
    (tmp_path / "a").write_bytes(gzip.compress(b"1\n2\n"))
    (tmp_path / "b").write_text("eins\nzwei")
    pairs = LinePairs(tmp_path / "a", tmp_path / "b")
    assert next(iter(pairs)) == ("1", "eins")
    assert list(pairs) == list(pairs) == [("1", "eins"), ("2", "zwei")]


def _zip(file, rows: list[tuple[str, str]]):
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("deu.txt", "".join(f"{english}\t{german}\n" for german, english in rows))


@pytest.fixture
def everyday(tmp_path, monkeypatch):
    """A small Tatoeba: 40 groups of four pairs that share sentences, up to case and marks."""
    monkeypatch.setattr(tatoeba, "HOLD_OUT", 5)
    rows = [(f"Satz {i}.", f"Sentence {i}.") for i in range(40)]
    rows += [(f"Anders {i}.", f"Sentence {i}.") for i in range(40)]
    rows += [(f"Neu {i}!", f"sentence {i}!") for i in range(40)]
    rows += [(f"SATZ {i}", f"Something else {i}") for i in range(40)]
    (tmp_path / "tatoeba").mkdir()
    _zip(tmp_path / "tatoeba/deu-eng.zip", rows)
    return tmp_path, rows


def test_tatoebas_held_out_sentences_are_not_in_train(everyday):
    data, rows = everyday
    parts = {s: read_pairs("tatoeba", s, "de", "en", data) for s in ("train", "val", "test")}
    assert len(parts["val"]) == len(parts["test"]) == 5
    assert set(parts["val"] + parts["test"]) <= set(rows)

    def keys(pairs, side):
        return {pair[side].casefold().strip(".!") for pair in pairs}

    for side in (0, 1):
        sides = [keys(part, side) for part in parts.values()]
        assert sum(map(len, sides)) == len(set.union(*sides))
    held_out = parts["val"] + parts["test"]
    expected = [
        r for r in rows if all(not keys([r], side) & keys(held_out, side) for side in (0, 1))
    ]
    assert parts["train"] == expected  # and nothing else is missing
    assert len(rows) - 4 * 10 <= len(expected) < len(rows) - 10
    _zip(data / "tatoeba/deu-eng.zip", rows[20:40] + rows[:20] + rows[40:])  # in another order
    assert read_pairs("tatoeba", "test", "en", "de", data) == [(e, g) for g, e in parts["test"]]


def test_tatoebas_special_spaces_become_plain(tmp_path):
    _zip(tmp_path / "x.zip", [("„Ja“\u202f!", "It\u00a0is so\u00adcalled.")])
    assert tatoeba.read(tmp_path / "x.zip") == [("„Ja“ !", "It is socalled.")]


def _iwslt(folder, broken: bool = False):
    folder.mkdir(parents=True)
    for language, lines in (("de", ["Guten Tag.", "Ja & nein."]), ("en", ["Hello.", "Yes & no."])):
        train = "<url>http://x</url>\n<title>Ein Titel</title>\n" + "".join(
            f" {line} \n" for line in lines
        )
        (folder / f"train.tags.de-en.{language}").write_text(train)
        segments = "".join(
            f'<seg id="{i}"> {line.replace("&", "&amp;")} </seg>\n' for i, line in enumerate(lines)
        )
        if broken and language == "en":
            segments = segments.splitlines()[0]
        (folder / f"IWSLT17.TED.tst2015.de-en.{language}.xml").write_text(
            '<?xml version="1.0" encoding="UTF-8"?>\n<mteval><refset>'
            f'<doc docid="1"><title>Ein Titel</title>\n{segments}</doc></refset></mteval>\n'
        )


@pytest.mark.parametrize("split", ["train", "tst2015"])
def test_iwslt_is_read_as_published(tmp_path, split):
    _iwslt(tmp_path / "iwslt2017/de-en")
    expected = [("Guten Tag.", "Hello."), ("Ja & nein.", "Yes & no.")]
    assert read_pairs("iwslt2017", split, "de", "en", tmp_path) == expected
    assert read_pairs("iwslt2017", split, "en", "de", tmp_path) == [(e, g) for g, e in expected]


def test_iwslt_files_of_different_editions_are_rejected(tmp_path):
    _iwslt(tmp_path / "iwslt2017/de-en", broken=True)
    with pytest.raises(ValueError, match="2 segments and .* has 1"):
        read_pairs("iwslt2017", "tst2015", "de", "en", tmp_path)


def test_wmt_is_read_from_a_folder_for_its_direction(tmp_path):
    (tmp_path / "wmt").mkdir()
    (tmp_path / "wmt/wmt19.de-en.de").write_text("Nachrichten.\n")
    (tmp_path / "wmt/wmt19.de-en.en").write_text("News.\n")
    assert read_pairs("wmt", "wmt19", "de", "en", tmp_path) == [("Nachrichten.", "News.")]
    with pytest.raises(ValueError, match="wmt19.en-de.en does not exist"):
        read_pairs("wmt", "wmt19", "en", "de", tmp_path)


def test_wmt_comes_from_sacrebleu(tmp_path, monkeypatch):
    import sacrebleu

    for name in wmt.SETS:
        assert {"de-en", "en-de"} <= set(sacrebleu.DATASETS[name].langpairs)
    for name, text in (("src", "Nachrichten.\n"), ("ref", "News.\n")):
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(sacrebleu, "get_source_file", lambda *_: str(tmp_path / "src"))
    monkeypatch.setattr(sacrebleu, "get_reference_files", lambda *_: [str(tmp_path / "ref")])
    assert read_pairs("wmt", "wmt14", "de", "en") == [("Nachrichten.", "News.")]

    for error, said in (
        (OSError(), "sacreBLEU cannot download wmt14: check the network"),
        (SystemExit(1), "sacreBLEU rejected the download of wmt14: pass --data"),
    ):
        monkeypatch.setattr(sacrebleu, "get_source_file", Mock(side_effect=error))
        with pytest.raises(ValueError, match=said):
            read_pairs("wmt", "wmt14", "de", "en")
