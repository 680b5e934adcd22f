"""Corpora: fetched once and verified, read from a folder, and refused in one line."""

import gzip
import io
import urllib.error

import pytest

from core import corpora
from core.corpora import read_lines, read_pairs
from core.files import sha256


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A pretend public home that serves what the test puts there, and counts the downloads."""
    files = {
        f"val.{language}.gz": gzip.compress(text.encode(), mtime=0)
        for language, text in (("de", "Ein Hund.\nEin Mann.\n"), ("en", "A dog.\nA man.\n"))
    }
    fetched = []

    def urlopen(url, timeout):
        fetched.append(url)
        name = url.rsplit("/", 1)[1]
        if name not in files:
            raise urllib.error.URLError("no such host")
        return io.BytesIO(files[name])

    digests = {name: sha256(content) for name, content in files.items()}
    original = corpora.CORPORA["multi30k"]
    pretend = corpora.Corpus(
        original.name, original.home, original.about, original.credit, ("val",), digests
    )
    monkeypatch.setitem(corpora.CORPORA, "multi30k", pretend)
    monkeypatch.setattr(corpora.urllib.request, "urlopen", urlopen)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return files, fetched


def test_fetched_once_and_read(home):
    _, fetched = home
    for _ in range(2):
        pairs = read_pairs("multi30k", "val", "de", "en")
        assert pairs == [("Ein Hund.", "A dog."), ("Ein Mann.", "A man.")]
    assert len(fetched) == 2
    assert all(url.startswith("https://raw.githubusercontent.com/multi30k/") for url in fetched)


def test_another_content_is_not_kept(home, tmp_path):
    files, _ = home
    files["val.de.gz"] = gzip.compress(b"Something else.\n")
    with pytest.raises(ValueError, match="SHA-256 .* not kept"):
        read_pairs("multi30k", "val", "de", "en")
    assert not list(tmp_path.rglob("val.de.gz*"))


def test_a_changed_cache_is_noticed(home, tmp_path):
    read_pairs("multi30k", "val", "de", "en")
    (tmp_path / "headlight/multi30k/val.de.gz").write_bytes(b"changed")
    with pytest.raises(ValueError, match="has changed since it was fetched"):
        read_pairs("multi30k", "val", "de", "en")


def test_no_network_says_what_to_do(home):
    files, _ = home
    files.clear()
    with pytest.raises(ValueError, match="cannot fetch .*: check the network or pass --data"):
        read_pairs("multi30k", "val", "de", "en")


def test_a_users_folder_is_read_gzipped_or_plain(home, tmp_path):
    files, fetched = home
    (tmp_path / "multi30k").mkdir()
    (tmp_path / "multi30k/val.de.gz").write_bytes(files["val.de.gz"])
    (tmp_path / "multi30k/val.en").write_text("A dog.\nA man.\n")
    assert read_pairs("multi30k", "val", "en", "de", tmp_path)[1] == ("A man.", "Ein Mann.")
    assert not fetched


@pytest.mark.parametrize(
    ("name", "split", "message"),
    [("wmt", "val", "choose one of multi30k"), ("multi30k", "dev", "choose one of val")],
)
def test_unknown_names_list_the_known(home, name, split, message):
    with pytest.raises(ValueError, match=message):
        read_pairs(name, split, "de", "en")


def test_unequal_files_are_refused(home, tmp_path):
    (tmp_path / "val.de").write_text("Ein Hund.\nEin Mann.\n")
    (tmp_path / "val.en").write_text("A dog.\n")
    with pytest.raises(ValueError, match=r"val.de has 2 lines and val.en has 1"):
        read_pairs("multi30k", "val", "de", "en", tmp_path)


def test_a_folder_without_the_corpus_is_named(home, tmp_path):
    with pytest.raises(ValueError, match="--data needs a folder with multi30k/"):
        read_pairs("multi30k", "val", "de", "en", tmp_path / "empty")


def test_only_a_newline_ends_a_line(tmp_path):
    file = tmp_path / "x"
    file.write_bytes("a\u2028b\x85c\r\n\nlast".encode())
    assert read_lines(file) == ["a\u2028b\x85c\r", "", "last"]


def test_another_encoding_is_named(tmp_path):
    file = tmp_path / "x"
    file.write_bytes("Männer\n".encode("latin-1"))
    with pytest.raises(ValueError, match="not UTF-8"):
        read_lines(file)


def test_a_broken_archive_is_named(tmp_path):
    file = tmp_path / "x.gz"
    file.write_bytes(gzip.compress(b"text" * 100)[:-9])
    with pytest.raises(ValueError, match="cannot be read"):
        read_lines(file)
