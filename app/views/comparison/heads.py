"""Shows which head of the second model matches which head of the first."""

from collections.abc import Mapping

import streamlit as st

from app.figures import comparison
from app.look.numbers import percent
from app.state import waiting
from app.views.shared.choices import choose
from app.views.shared.figure import show
from core.analysis.matching import Matching
from core.kinds import KINDS


@waiting.fragment
def show_matching(matchings: Mapping[str, Matching], same_weights: bool) -> None:
    """Show the matched heads of one kind."""
    kind = choose("Attention", {k: k.capitalize() for k in KINDS}, "cross", "compare_matched")
    matching = matchings[kind]
    N = len(matching.partner)
    with st.container(horizontal=True, gap="medium"):
        show(comparison.matching_figure(matching, kind), "matched_heads")
        with st.container(width=340):
            if same_weights and matching.kept == N:
                st.write(
                    f"All {N} heads are matched to themselves; the least similar pair shares "
                    f"{percent(matching.matched.min())} of its attention."
                )
            else:
                st.write(
                    f"On average, matched heads share {percent(matching.matched.mean())} of their "
                    f"attention, heads with the same number {percent(matching.same_number.mean())}."
                )
            st.latex(r"s(a, b) = \frac{1}{Q} \sum_{q} \sum_{k} \min\left(A_{qk}, B_{qk}\right)")
            st.caption(
                "s is the share of attention that two heads put on the same cells, averaged over "
                "all rows. The rings mark the one-to-one matching with the largest total s "
                "(Hungarian algorithm)."
            )
            heads_of = [divmod(n, matching.heads) for n in range(N)]
            st.dataframe(
                {
                    "first": [f"{layer + 1}.{head + 1}" for layer, head in heads_of],
                    "second": [
                        ".".join(str(i + 1) for i in matching.of(layer, head))
                        for layer, head in heads_of
                    ],
                    "in common": matching.matched.round(4),
                    "same number": matching.same_number.round(4),
                },
                hide_index=True,
                height=220,
                column_config={
                    column: st.column_config.NumberColumn(format="%.4f")
                    for column in ("in common", "same number")
                },
                key="matched_pairs",
            )
