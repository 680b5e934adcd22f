"""Heads: every head of the network over a corpus, one head in detail, and your own text."""

import streamlit as st

from app import controls
from app.components.atlas import Shown, heads_atlas
from app.components.atlas.payload import unknown_parameters
from app.look.glossary import meaning
from app.look.markdown import plain
from app.state import address, atlases, models, session, waiting
from app.views import VIEWS
from app.views.heads.own_text import open_link, show_own_text
from core.atlas.atlas import FILE, Atlas
from core.checkpoint.errors import shell_quoted
from core.checkpoint.folder import Card
from core.record.attention_snapshots import FILE as SNAPSHOTS


def shown(chosen: controls.Selection, other: str = "", in_url: bool = True) -> Shown:
    """Return what the page shows besides the atlas: the choices in the URL, and links.

    `other` is the folder name of the network with which heads were matched.
    """
    opened = {name: address.requested(name) for name in ("head", "measure", "x", "y", "curve")}
    if (kind := address.requested("kind")) and "." not in (head := opened["head"] or ""):
        # A link back from the explorer has separate kind, layer and head; head may be "mean".
        opened["head"] = f"{kind}.{address.requested('layer')}.{head}" if head.isdigit() else None
    from core.atlas.roles import ROLES

    card = next((c for c in models.cards().values() if c.folder.name == other), None)
    counterpart = None
    if card is not None:
        model = {"direction": card.direction, "model": models.model_name(card)}
        counterpart = {**chosen.link, **model}
    return Shown(
        opened=opened if in_url else {},
        turn=session.get("arrival") or 0,
        in_url=in_url,
        training=chosen.card is not None and (chosen.card.folder / SNAPSHOTS).is_file(),
        link=chosen.link,
        credit=chosen.card.credit if chosen.card else "",
        definitions={role.name: f"{role.definition} Source: {role.source}." for role in ROLES},
        counterpart=counterpart,
    )


@waiting.fragment
def show_atlas(atlas: Atlas, chosen: controls.Selection) -> None:
    """Show the atlas; after a click on one of its links, open that page."""
    page = shown(chosen, atlas.origin.other)
    for line in unknown_parameters(atlas, page.opened):
        st.warning(plain(f"{line}."))
    if link := heads_atlas(atlas, page, key="heads_atlas"):
        open_link(link)


def shipped(card: Card) -> Atlas | None:
    """Return the atlas beside the network's weights, or show why there is none."""
    try:
        atlas = atlases.shipped_atlas(card)
    except ValueError as error:
        st.error(plain(error))
        return None
    if atlas is None:
        st.info(
            f"There is no {FILE} beside this network, so what its heads do over a corpus is not "
            "known here. Your own text, below, needs no such file. To write the file, run:"
        )
        # A code block: escaped text has invisible joiners, which would be copied with the command.
        folder, file = map(shell_quoted, (card.folder, card.folder / FILE))
        st.code(
            f"python -m core.analyse atlas --checkpoint {folder} --src FILE --ref FILE "
            f"--out {file}",
            language=None,
            wrap_lines=True,
        )
    return atlas


st.title(
    "Heads",
    help=meaning(
        *("head", "ablation", "bootstrap", "null", "nats", "value norms"),
        *("word alignment", "alignment error rate"),
    ),
)
chosen = controls.selection()
for line in models.problems():
    st.error(plain(line))
if chosen.card is None:
    st.stop()
if (atlas := shipped(chosen.card)) is not None:
    show_atlas(atlas, chosen)
st.page_link(VIEWS["literature"].file, label="What papers claim about heads", width="content")
show_own_text(chosen.card, shown(chosen, in_url=False))
