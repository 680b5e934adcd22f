"""Serialises a question for its component: what can be pointed at, what is right, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from core.analysis.questions import Question

if TYPE_CHECKING:
    from core.kinds import Kind
    from core.record.record import TranslationRecord

WORDS = frozenset(
    "check skip yours answer right wrong near skipped cells this again hint give_up pair".split()
)
"""The texts that every question needs.

`yours` and `answer` have {option}, `cells` has {found}, {masked} and {extra}; `this`
tells a screen reader that an option is the answer. `pair`, a hint, has {one} and {other}.
"""


@dataclass(frozen=True)
class Option:
    """An option: its label, its name in sentences, and its `value`, shown after the answer.

    `said` is the option with its value, for "Your answer: {option}". `shade` colours the option
    once the question is answered: from 0 to 1 for a weight, from −1 to 1 for a change. `close` puts
    no space between a word and the previous one.
    """

    label: str
    name: str
    said: str
    value: str = ""
    shade: float | None = None
    special: bool = False
    unknown: bool = False
    close: bool = False


@dataclass(frozen=True)
class Hint:
    """A look at the question's numbers; `among` are the options that it leaves, if not all."""

    text: str
    among: Sequence[int] = ()


@dataclass(frozen=True)
class Sentence:
    """Options as the words of a sentence, in order."""

    layout: Literal["words"] = "words"


@dataclass(frozen=True)
class Texts:
    """Options as a list of texts."""

    layout: Literal["list"] = "list"


@dataclass(frozen=True)
class Grid:
    """Options as the cells of a grid, row by row, with the labels and titles of both axes.

    With `filled`, the right options are masked cells: once answered, they are hatched.
    """

    rows: Sequence[str]
    columns: Sequence[str]
    row_title: str
    column_title: str
    layout: Literal["grid"] = "grid"
    filled: bool = False


@dataclass(frozen=True, eq=False)
class Place:
    """A map that shows the answer, and the row that the question is about, counted from 0.

    For a question about a change, `record` is the pass after it and `before` the one before it.
    """

    record: TranslationRecord
    kind: Kind
    layer: int
    head: int
    query: int | None = None
    before: TranslationRecord | None = None


@dataclass(frozen=True)
class Asked:
    """A question with all its texts.

    `id` names the question and the sentence: another sentence is another question. `options` are
    those of the question, in order. `explanation` follows the answer, `uncertain` says what the
    numbers leave open, `paper` names the paper's section, and `words` are the component's own
    texts, see `WORDS`. `hints` are offered after wrong answers, before a last one that names two
    options; each is a true sentence that leaves the right option and at least one more. `scale`
    says whether `Option.shade` is a weight or a change, and `shaded_by` what it is in a filled
    grid, up to the 0 of its scale. `given` is an earlier answer. `place`, which is not sent to the
    browser, names the map that shows the answer.
    """

    id: str
    question: Question
    prompt: str
    hint: str
    layout: Sentence | Texts | Grid
    options: Sequence[Option]
    explanation: Sequence[str]
    uncertain: str
    words: Mapping[str, str]
    paper: str = ""
    hints: Sequence[Hint] = ()
    scale: Literal["weight", "change"] = "weight"
    shaded_by: str = ""
    given: Mapping[str, Any] | None = field(default=None)
    place: Place | None = None


def payload(asked: Asked) -> dict[str, Any]:
    """Return a question in the form that the component's JavaScript reads, all JSON.

    `question` is the id; `correct`, `near` and `rivals` are indices of `options`: the right ones,
    those that count as well, and all others, closest first. `given` is the learner's answer if
    there is one, as the component reported it: see `Answer`.

    Raises ValueError if options or texts do not match the question.
    """
    question, layout = asked.question, asdict(asked.layout)
    if len(asked.options) != len(question.options):
        raise ValueError(f"{len(question.options)} options, but {len(asked.options)} are described")
    if asked.layout.layout == "grid":
        cells = len(layout["rows"]) * len(layout["columns"])
        if cells != len(asked.options):
            raise ValueError(f"a grid of {cells} cells cannot show {len(asked.options)} options")
    if missing := WORDS - asked.words.keys():
        raise ValueError(f"texts are missing: {', '.join(sorted(missing))}")
    rivals = set(range(len(asked.options))) - question.correct - question.near
    best = question.evidence[question.best]
    return {
        "question": asked.id,
        "name": question.name,
        "every": question.every,
        "prompt": asked.prompt,
        "hint": asked.hint,
        **layout,
        "scale": asked.scale,
        "shaded_by": asked.shaded_by,
        "options": [asdict(option) for option in asked.options],
        "correct": sorted(question.correct),
        "near": sorted(question.near),
        "rivals": sorted(rivals, key=lambda i: (abs(question.evidence[i] - best), i)),
        "hints": [{"text": hint.text, "among": list(hint.among)} for hint in asked.hints],
        "explanation": list(asked.explanation),
        "uncertain": asked.uncertain,
        "paper": asked.paper,
        "words": dict(asked.words),
        "given": None if asked.given is None else dict(asked.given),
    }
