"""The list of all pages: the navigation, links between pages and tests are derived from it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class View:
    """A page: its URL path ("" for the default page), its script in this folder, and its title.

    `own_sentence` is False for a page that takes no sentence from the visitor, and therefore offers
    no examples. `listed` is False for a page that the navigation hides.
    """

    path: str
    script: str
    title: str
    own_sentence: bool = True
    listed: bool = True

    @property
    def file(self) -> str:
        """The script, relative to `app`, as Streamlit's page functions take it."""
        return f"views/{self.script}.py"


VIEWS = {
    view.path: view
    for view in (
        View("", "translate", "Translate"),
        View("tour", "tour/page", "Guided tour", own_sentence=False),
        View("tokens", "tokens/page", "Tokens"),
        View("steps", "steps", "Step by step"),
        View("head", "inside_head/page", "Inside a head"),
        View("why", "why/page", "Ask why"),
        View("heads", "heads/page", "Heads", own_sentence=False),
        View("literature", "literature/page", "Literature", own_sentence=False),
        View("together", "together", "Two at once"),
        View("masks", "masks/page", "Masks"),
        View("positions", "positions/page", "Positions"),
        View("bugs", "bugs/page", "Find the bug"),
        View("training", "training", "Training", own_sentence=False),
        View("comparison", "comparison/page", "Scratch and baseline"),
        View("class", "teacher/page", "For teachers", own_sentence=False),
        View("quiz", "quiz/page", "Test yourself", own_sentence=False),
        View("glossary", "glossary", "Glossary", own_sentence=False, listed=False),
    )
}
"""All pages by URL path, in the order of the navigation."""
