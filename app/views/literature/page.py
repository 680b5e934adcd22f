"""Literature: published claims about attention heads, each tested on some of the networks here."""

from collections.abc import Sequence

import streamlit as st

from app.figures.amounts import amount, spread
from app.figures.literature import board_columns, board_figure
from app.look.glossary import meaning
from app.look.markdown import plain
from app.state import address, literature, models, session
from app.views.literature.claim import (
    IN_TABLE,
    VERDICT_COLOURS,
    authors,
    contradicting,
    show_claim,
)
from app.views.shared.choices import choose_listed
from app.views.shared.figure import show
from core.atlas.claims.board import Board, Row
from core.atlas.claims.claim import DIFFERS, FAILS, HOLDS, OPEN, in_brief
from core.atlas.claims.literature import DROP
from core.data.corpora import LANGUAGES

NO_CLAIM = ""
NO_NUMBER = "—"
IN_FOLD = {
    HOLDS: "hold",
    FAILS: "do not hold",
    DIFFERS: "differ between networks",
    OPEN: "undecided, and what would decide them",
}
LOOK_FOR = (
    "Each column is a claim, numbered as in the tables; each line is a network’s 95 % interval. "
    "The dotted line is the claim’s threshold. Blue lies on the claimed side, orange on the other; "
    "claims that differ have both. Grey claims are undecided, for the reason in their table; a "
    "cross is not measured. A click on a dot opens its claim."
)
COMMAND = "python -m core.analyse claims --data DIR --gold FILE --out "


def counts(board: Board) -> str:
    """Say how many claims got each verdict, and how many networks were tested."""
    verdicts = [row.verdict for row in board.rows]
    holds, fails, differ, undecided = (verdicts.count(verdict) for verdict in VERDICT_COLOURS)
    networks = len(board.origin.weights)
    where = f"{networks} network{'s' * (networks > 1)}"
    return (
        f"##### {len(verdicts)} published claims, {where}: :blue[{holds} hold], "
        f":orange[{fails} do{'es' * (fails == 1)} not hold], :primary[{differ} "
        f"differ{'s' * (differ == 1)}], :gray[{undecided} undecided]"
    )


def networks_note(board: Board) -> str:
    """Introduce the tested networks: implementation, direction, size."""
    here = literature.tested(board)
    names = []
    for name, card in here.items():
        names.append(f"**{plain(name)}**")
        if card is not None:
            from_to = " → ".join(
                LANGUAGES.get(code, code) for code in (card.source_language, card.target_language)
            )
            names[-1] += f" ({plain(models.model_label(card))}, {plain(from_to)})"
    sizes = {
        (card.model.num_encoder_layers, card.model.num_decoder_layers, card.model.num_heads)
        for card in here.values()
        if card is not None
    }
    text = f"Networks tested: {', '.join(names)}."
    if len(sizes) == 1:
        encoder, decoder, heads = sizes.pop()
        text += (
            f" Each has {encoder} encoder and {decoder} decoder layers of {heads} heads: "
            f"{encoder * heads} encoder heads, {decoder * heads} decoder heads and "
            f"{decoder * heads} cross-attention heads."
        )
    return text


def show_board(board: Board) -> None:
    """Show the verdicts, each claim on request, and how to measure them again."""
    if changed := literature.other_weights(board):
        st.warning(
            plain(
                f"{literature.BOARD} was measured on weights of {', '.join(changed)} that are not "
                "available here: write it again with the command below."
            )
        )
    st.markdown(counts(board))
    networks = len(board.origin.weights)
    columns = board_columns(board.rows)
    show(
        board_figure(board.rows, networks),
        "literature_board",
        LOOK_FOR,
        alt=LOOK_FOR,
        on_point=lambda x: session.put("literature_claim", columns[round(x)].claim.id),
    )
    choose_claim(list(columns.values()))
    first = 1
    for verdict, name in IN_FOLD.items():
        if rows := [row for row in board.rows if row.verdict == verdict]:
            word = name.partition(",")[0].partition(" ")[0]
            with st.expander(f"{len(rows)} {name}"), st.container(key=f"literature_{word}"):
                show_table(rows, networks, first)
                first += len(rows)
                st.caption(f"Points are percentage points; {NO_NUMBER}: no number in the paper.")
    with (
        st.expander("How a claim is decided, and on which networks and sentences"),
        st.container(key="literature_rules"),
    ):
        show_rules(board)


def show_table(rows: Sequence[Row], networks: int, first: int) -> None:
    """Show claims, numbered from `first`: paper, numbers, verdict and its reason in brief."""
    st.table(
        {
            "no.": list(range(first, first + len(rows))),  # a range would hide the header
            "claim": [plain(row.claim.claim) for row in rows],
            "paper": [plain(authors(row.claim)) for row in rows],
            "reported": [
                spread(row.claim.published, row.claim.unit) if row.claim.published else NO_NUMBER
                for row in rows
            ],
            "here (mean)": [
                NO_NUMBER if row.mean is None else amount(row.mean.value, row.claim.unit)
                for row in rows
            ],
            "verdict": [
                # Not badges, which do not wrap on a narrow screen.
                f":{VERDICT_COLOURS[row.verdict]}[**{IN_TABLE[row.verdict]}**]: "
                + in_brief(row.claim, row.estimates, networks, row.mean)
                + "".join(f"; {side} by {name}" for name, side in contradicting(row).items())
                for row in rows
            ],
        },
        border="horizontal",
        hide_index=True,
    )


def choose_claim(rows: Sequence[Row]) -> None:
    """Choose one of the numbered claims and show it."""
    if family := address.pop("literature_family"):  # a link to a group of claims
        first = next((row.claim.id for row in rows if row.claim.family == family), NO_CLAIM)
        session.put("literature_claim", first)
    named = {row.claim.id: f"{n}  {row.claim.claim}" for n, row in enumerate(rows, 1)}
    prompt = f"Choose one of {len(rows)} to read it, with each network’s numbers"
    chosen = choose_listed("Claim", {NO_CLAIM: prompt} | named, NO_CLAIM, "literature_claim")
    if asked := dict(address.unknown()).get("literature_claim"):
        st.caption(plain(address.unavailable("claim", asked, "none")))
    for row in rows:
        if row.claim.id == chosen:
            show_claim(row)


def show_rules(board: Board) -> None:
    """Show the tested networks, the rule behind the verdicts, and how to measure again."""
    origin = board.origin
    st.markdown(networks_note(board))
    st.caption(
        "A claim holds if in every network the whole interval lies on the claimed side of the "
        "threshold. It does not hold if in every network it lies on the other side. Where some "
        "intervals include the threshold and none lies on the opposite side, the mean over all "
        "networks decides, if its interval does (a clause that was added after the first figures "
        "were known). A claim differs between networks if it lies on the claimed side in at least "
        "one and on the other side in at least one, whatever the rest. Otherwise it is undecided; "
        "its card says what would decide it. So is a claim whose card says that no result here "
        "would decide it, or that values on the other side would not refute it. Other differences "
        "from the paper's test are named on the card and do not change the verdict. "
        "Intervals are 95 % intervals over sentences, unless the claim says otherwise. The "
        "networks differ in direction, code and training run at once, so their spread is only a "
        "rough guide to what each of these does."
    )
    st.caption(
        "A threshold turns a claim’s words into a number: “most” into half; “more”, “less” or "
        "“better” into no difference, 0; “a fifth”, or the paper’s own number, into just that. "
        "Where the words name no number, it is a convention, which the card states (“We call …”); "
        f"a value close to it decides little. “Almost no loss” is {DROP} BLEU, Voita et al.'s "
        "number."
    )
    gold = (
        f", and {origin.gold_sentences:,} sentences with manual alignments ({origin.gold})"
        if origin.gold
        else ""
    )
    st.text(f"Text: {origin.sentences:,} sentence pairs ({origin.corpus}){gold}.")
    st.code(f"{origin.command} --out {literature.BOARD}", language=None, wrap_lines=True)


st.title(
    "Literature",
    help=meaning(
        *("head", "layer", "cross-attention", "ablation", "bootstrap", "BLEU", "Spearman", "AUROC"),
        *("surprisal", "attention sink"),
    ),
)
try:
    board = literature.literature_board()
except ValueError as error:
    st.error(plain(error))
else:
    if board is not None:
        show_board(board)
    else:
        st.info(
            plain(
                f"There is no {literature.BOARD}, so no claim has been tested here: "
                f"`{COMMAND}{literature.BOARD}` writes it."
            )
        )
