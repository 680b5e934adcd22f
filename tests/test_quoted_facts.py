"""Numbers quoted from papers: transcribed here a second time, and compared with every text."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from core.atlas.claims import quoted
from core.atlas.claims.board import Board
from core.atlas.claims.literature import LITERATURE
from core.atlas.claims.quoted import Quote
from core.atlas.roles import ROLES
from core.data.corpora import CORPORA
from core.search.beam import length_limit, penalised
from core.training.recipes import RECIPES

ROOT = Path(__file__).resolve().parents[1]
NUMBER = re.compile(
    r"(?<![\w.])\d+(?:,\d{3})*(?:\.\d+)?(?!\w)|"
    r"\b(?:one|two|three|four|five|six|eight|ten|sixteen|half|third|fifth|quarter|all but)\b",
    re.IGNORECASE,
)


def numbers(text: str) -> list[str]:
    """Return the numbers of a text in order, as written; number words in lower case."""
    return [found.lower() for found in NUMBER.findall(text)]


# What the papers report, transcribed apart from core/atlas/claims/quoted.py: the numbers in the
# source, the numbers in the claim and in the sentence about the paper, and the published value.
VOITA, KOBAYASHI, SHARES = "2019 1905.09418", "2020 2004.10102", "2021 2010.10907"
MICHEL, KIM = "2019 1905.10650 sixteen one", "2021 2105.14940"
PUBLISHED: dict[str, tuple[str, str, tuple[float, ...]]] = {
    "encoder-heads-removable": (VOITA, "38 48 0.15", (0.7916667,)),
    "half-of-all-heads": (VOITA, "half half 0.25", (0.5,)),
    "removal-order": (VOITA, "", ()),
    "fifth-free": (MICHEL, "fifth 20", (0.2,)),
    "third-removable": (KIM, "third one third one five", ()),
    "cross-collapses": (f"{MICHEL} 60", "60 60", ()),
    "last-cross-layer": (MICHEL, "one 13.56 one", (13.56,)),
    "few-heads-matter": (MICHEL, "one 88 96 0.01", (0.9166667,)),
    "removal-helps": (MICHEL, "4 8 96 0.01", (4,)),
    "same-heads-matter": (KIM, "one", ()),
    "positional-heads": (VOITA, "90 one", ()),
    "rare-word-head": (VOITA, "66 one 500 half one two", (0.66,)),
    "eos-and-punctuation": ("2026 2605.01229", "83 91 200 600", (0.83, 0.91)),
    "early-input-layer": (KOBAYASHI, "2 6 five 5 4 one", (2, 3)),
    "input-reading-better": (KOBAYASHI, "one 29.8 47.7 five", (0.179,)),
    "norms-align-better": (KOBAYASHI, "25.0 29.8 five", (0.048,)),
    "source-share-falls": (SHARES, "", ()),
    "source-share-at-eos": (SHARES, "", ()),
    "value-zeroing-faithful": ("2026 2603.11342", "", ()),
    "attention-faithful": ("2026 2603.11342", "", ()),
    **dict.fromkeys(
        (
            *("aligning-heads-exist", "aligning-heads-sparse", "aligning-heads-causal"),
            "other-heads-idle",
            "aligning-heads-same",
        ),
        ("2026", "", ()),
    ),
    "penultimate-layer-aligns": ("2019 1909.02074", "", ()),
    "probability-tells-quality": ("2020 2020 1.35", "", ()),
    "few-heads-hallucinate": ("2025 2505.12969", "3 20 75", (0.75,)),
    "gender-by-few-words": ("2026 2512.08440", "", ()),
    "sinks-exist": ("2024 2309.17453", "", ()),
    **dict.fromkeys(
        ("translated-in-embeddings", "translated-layer-by-layer", "first-decoder-layer"),
        ("2021 2003.09586", "", ()),
    ),
    "jacobian-lens-better": ("2026", "", ()),
    "errors-previous-token": ("2026 2505.20045", "", ()),
    "attention-adds-to-probability": ("2026 2505.20045", "", ()),
    "sinks-are-empty": ("2026 2606.08105", "", ()),
    "role-by-a-jump": ("2026 2606.12058", "one", ()),
    "fixed-positional-heads": ("2020 2002.10260", "all but one all but one 3", ()),
}
CLAIMS = {claim.id: claim for claim in LITERATURE}


def test_every_claim_is_transcribed():
    assert set(CLAIMS) == set(PUBLISHED)
    quotes = [value for value in vars(quoted).values() if isinstance(value, Quote)]
    assert {id(quote) for quote in quotes} == {id(claim.quote) for claim in LITERATURE}


@pytest.mark.parametrize("id", PUBLISHED)
def test_a_claim_quotes_its_paper(id):
    claim, (source, theirs, published) = CLAIMS[id], PUBLISHED[id]
    assert numbers(claim.source) == numbers(source)
    assert numbers(f"{claim.claim} {claim.theirs}") == numbers(theirs)
    assert claim.published == pytest.approx(published, abs=1e-6)


def test_the_shipped_board_has_the_texts_of_this_version(tmp_path):
    file = ROOT / "checkpoints/literature.json"
    Board.load(file).save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == file.read_bytes()


# The section of the paper that each role comes from.
SECTIONS = {
    "previous token": "Voita et al. 2019, §5.1",
    "next token": "Voita et al. 2019, §5.1",
    "itself": "Clark et al. 2019, §3.1",
    "sentence start": "Clark et al. 2019, §3.2",
    "<eos>": "Clark et al. 2019, §3.2",
    "punctuation": "Clark et al. 2019, §3.2",
    "same word": "Correia et al. 2019",
    "earlier copy": "Wang et al. 2022",
    "rarest token": "Voita et al. 2019, §5.3",
    "function words": "this project",
    "diagonal": "this project",
    "copy of fed token": "this project",
    "copy of produced token": "this project",
    "aligned to fed token": "Chen et al. 2020, abstract",
    "aligned to produced token": "the baseline in Chen et al. 2020, abstract",
}


def test_a_role_names_the_section_it_comes_from():
    assert {role.name: role.source.partition(" (")[0] for role in ROLES} == SECTIONS


# Other texts that repeat a number from a paper: file, the words around the number, the number.
REPEATED = (
    ("core/atlas/labels.py", "exceed its baseline by {} points", "10"),
    ("core/search/beam.py", "the source length + {} (Vaswani et al. 2017, §6.1)", "50"),
    (
        "app/components/network/search.js",
        "the source length + {} (Vaswani et al. 2017, §6.1)",
        "50",
    ),
    (
        "core/search/beam.py",
        "log P / (({} + length) / {})^alpha (Wu et al. 2016, eq. {})",
        "5 6 14",
    ),
    (
        "app/components/network/search.js",
        "log P / (({} + length) / {})^alpha (Wu et al. 2016, eq. {})",
        "5 6 14",
    ),
    ("core/config.py", "score = log P / (({} + length) / {})^alpha", "5 6"),
    ("app/lessons/en/glossary.toml", "divided by (({} + length) / {})^α", "5 6"),
    ("core/training/recipes.py", "(table {}, §{}): {} steps of {} ", "3 5 100,000 25,000"),
    (
        "core/training/recipes.py",
        "tokens, warm-up {}, the last {} of its snapshots averaged",
        "4,000 5",
    ),
    ("app/lessons/en/positions.toml", "BLEU (§{}, table {}, row E)", "3.5 3"),
    ("core/model/positions.py", "sinusoids (paper §{})", "3.5"),
    ("core/data/corpora.py", "(Elliott, Frank, Sima'an & Specia 2016): {} English", "29,000"),
    ("core/data/corpora.py", "(state of 2018-05-13, {} pairs)", "169,813"),
    ("core/training/recipes.py", "Batches per epoch of {} pairs", "29,000"),
    ("checkpoints/README.md", "the {} captions of Multi30k only", "29,000"),
)


@pytest.mark.parametrize(("file", "around", "expected"), REPEATED)
def test_a_number_is_the_same_wherever_it_is_repeated(file, around, expected):
    text = (ROOT / file).read_text(encoding="utf-8")
    pattern = re.escape(around).replace(re.escape("{}"), r"(\d[\d,.]*\d|\d)")
    found = {tuple(match.groups()) for match in re.finditer(pattern, text)}
    assert found == {tuple(expected.split())}


def test_the_code_follows_the_papers_numbers():
    base = RECIPES["paper-base"]
    assert (base.training.steps, base.training.batch_tokens) == (100_000, 25_000)
    assert (base.training.warmup_steps, base.training.average_last) == (4000, 5)
    assert base.training.peak_lr == pytest.approx(7e-4, rel=0.01)
    assert length_limit(100, 10_000) == 150
    assert penalised(-3, 7, 1) == pytest.approx(-1.5) and penalised(-3, 19, 0.5) == -1.5


@pytest.mark.parametrize("folder", sorted((ROOT / "checkpoints").glob("*-*-*")), ids=str)
def test_a_model_card_has_the_numbers_of_its_corpora_and_its_recipe(folder):
    """A card keeps the words that its recipe had when it was trained, but cites the same papers."""
    card = " ".join((folder / "MODEL_CARD.md").read_text(encoding="utf-8").split())
    name, source = re.search(r"\*\*Recipe\*\* `([\w-]+)`: (.*?) Seed \d", card).groups()
    recipe = RECIPES[name]
    assert recipe.corpora and all(CORPORA[corpus].credit in card for corpus in recipe.corpora)
    cited = r"\((?:after )?([A-Z][^()]* \d{4})\)"
    assert re.findall(cited, source) == re.findall(cited, recipe.source) != []


ONCE = ("38 of 48", "0.15 BLEU", "13.56", "88 of 96", "29.8 %", "47.7 %", "83–91 %", "500 most")


@pytest.mark.parametrize("number", ONCE)
def test_a_number_of_a_paper_is_written_in_one_place(number):
    """Everything else takes it from there, or is one of the repetitions above."""
    texts = [ROOT / "CHANGELOG.md", *ROOT.glob("*/README.md"), ROOT / "README.md"]
    texts += [file for folder in ("core", "app") for file in (ROOT / folder).rglob("*")]
    texts.remove(Path(quoted.__file__))
    read = (".py", ".toml", ".js", ".html", ".md")
    written = [f for f in texts if f.suffix in read and number in f.read_text(encoding="utf-8")]
    assert written == []
