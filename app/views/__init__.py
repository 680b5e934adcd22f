"""The list of all pages: the navigation, links between pages and tests are derived from it."""

from __future__ import annotations

from dataclasses import dataclass

GROUPS = {
    "This sentence": "Where each head looks, and what if",
    "This model": "What its heads do on a corpus",
    "Lessons": "New here? Start with the tour",
    "For teachers": "Ready lessons, or your own",
}
"""The groups of the navigation, each with a line that says what it is for."""
SETTINGS = ("direction", "model", "search")


@dataclass(frozen=True)
class View:
    """A page: its URL path ("" for the default page), its script in this folder, and its title.

    `group` is its group in the navigation. `own_sentence` is False for a page that takes no
    sentence from the visitor, and therefore offers no examples. `settings` are those of the
    sidebar's that change something on the page.
    """

    path: str
    script: str
    title: str
    group: str
    own_sentence: bool = True
    settings: tuple[str, ...] = SETTINGS

    @property
    def file(self) -> str:
        """The script, relative to `app`, as Streamlit's page functions take it."""
        return f"views/{self.script}.py"


_SENTENCE, _MODEL, _LESSONS, _TEACHERS = GROUPS
_NETWORK = ("direction", "model")

VIEWS = {
    view.path: view
    for view in (
        View("", "translate", "Translate", _SENTENCE),
        View("steps", "steps", "Step by step", _SENTENCE),
        View("head", "inside_head/page", "Inside a head", _SENTENCE),
        View("together", "together", "Two at once", _SENTENCE),
        View("why", "why/page", "Ask why", _SENTENCE),
        View("heads", "heads/page", "Heads", _MODEL, own_sentence=False, settings=_NETWORK),
        View("training", "training", "Training", _MODEL, own_sentence=False, settings=_NETWORK),
        View("comparison", "comparison/page", "Scratch and baseline", _MODEL),
        View("literature", "literature/page", "Literature", _MODEL, False, settings=()),
        View("tour", "tour/page", "Guided tour", _LESSONS, own_sentence=False),
        View("train", "train/page", "Train one here", _LESSONS, False, settings=()),
        View("tokens", "tokens/page", "Tokens", _LESSONS, settings=_NETWORK),
        View("masks", "masks/page", "Masks", _LESSONS),
        View("positions", "positions/page", "Positions", _LESSONS),
        View("bugs", "bugs/page", "Find the bug", _LESSONS),
        View("quiz", "quiz/page", "Test yourself", _LESSONS, own_sentence=False, settings=()),
        View("glossary", "glossary", "Glossary", _LESSONS, own_sentence=False, settings=()),
        View("class", "teacher/page", "For teachers", _TEACHERS, own_sentence=False),
    )
}
"""All pages by URL path, in the order of the navigation."""
