"""The claims of the board, with their sources, the numbers they report, and how each is tested."""

from __future__ import annotations

from core.atlas.claims.claim import Claim

DROP = 0.25
"""The largest drop in BLEU that still counts as almost no loss."""
SIGNIFICANT, STRICT, LENIENT = 0.01, 0.001, 0.05
"""Significance levels for one head's change of BLEU: the paper's, a stricter and a laxer one."""

_VOITA = "Voita et al. 2019, “Analyzing Multi-Head Self-Attention”"
_BLOG = f"{_VOITA}, in the authors' summary (lena-voita.github.io)"
_MICHEL = "Michel, Levy & Neubig 2019, “Are Sixteen Heads Really Better than One?”"
_SECOND_HAND = "taken from summaries of the paper, not checked against it"
_QUOTED = f"{_MICHEL}; {_SECOND_HAND}"
_KIM = (
    "Kim et al. 2021, “Do Multilingual Neural Machine Translation Models Contain Language Pair "
    "Specific Attention Heads?”, abstract"
)
_KOBAYASHI = "Kobayashi et al. 2020, “Attention is Not Only a Weight”, the authors' notebook"
_SHARES = "Voita, Sennrich & Titov 2021, “Analyzing the Source and Target Contributions”"
_FAITHFUL = "Nourbakhsh et al. 2026, arXiv 2603.11342, abstract"
_NO_RETRAINING = (
    "That would not refute the claim: its authors train the gates that remove heads. Here, heads "
    "are removed from a network that is not trained further."
)
_COUNTED = (
    f"p < {SIGNIFICANT} for each head by itself, as in the paper; bootstrap over sentences, normal "
    "approximation. The interval is not a confidence interval: its ends are the counts at "
    f"p < {STRICT} and at p < {LENIENT}."
)
_GREEDY = (
    "Heads are removed one at a time, each time the one whose removal raises the loss on 50 "
    "sentences least; the network is not trained further."
)
_REMOVABLE = (
    f"Largest share of all heads without which BLEU is within {DROP} of the whole network's. "
    + _GREEDY
)
_NORM_ROLLOUT = (
    "The share is computed by norm rollout (after Kobayashi et al. 2021) through the decoder's "
    "attention layers, not by the authors' layer-wise relevance propagation. Feed-forward layers "
    "and norms are left out."
)
_OTHER_METHOD = (
    "No result here would decide the claim: its authors measure the share by another method."
)
_OTHER_MEASURE = (
    "No result here would decide the claim: its authors train a student with each attribution and "
    "measure its BLEU."
)
_SHAPLEY = (
    "Each method's scores of the source words are correlated (Spearman) with their exact Shapley "
    "values, averaged over target tokens and sentences of at most 9 words. Shown: the correlation "
)

PRUNING, IMPORTANCE, ROLES, ALIGNMENT, SOURCES = FAMILIES = (
    "Pruning",
    "Single heads",
    "What heads attend to",
    "Word alignment",
    "Where tokens come from",
)

LITERATURE: tuple[Claim, ...] = (
    Claim(
        id="encoder-heads-removable",
        family=PRUNING,
        claim="Most encoder heads can be removed with almost no loss of translation quality.",
        source=f"{_VOITA}, abstract",
        theirs="38 of 48 encoder heads removed for a loss of 0.15 BLEU (English-Russian, WMT).",
        published=(38 / 48,),
        quantity=f"encoder heads removed with BLEU within {DROP}",
        ours=f"Largest share of encoder heads without which BLEU is within {DROP} of the whole "
        f"network's. {_GREEDY}",
        threshold=0.5,
        limits=_NO_RETRAINING,
        see="/heads?head=encoder.0.0",
    ),
    Claim(
        id="half-of-all-heads",
        family=PRUNING,
        claim="More than half of all heads can be removed with almost no loss.",
        source=_BLOG,
        theirs="More than half of the heads of all kinds removed for a loss of at most 0.25 BLEU.",
        published=(0.5,),
        quantity=f"all heads removed with BLEU within {DROP}",
        ours=_REMOVABLE,
        threshold=0.5,
        limits=_NO_RETRAINING,
        see="/heads?head=encoder.0.0",
    ),
    Claim(
        id="removal-order",
        family=PRUNING,
        claim="Encoder self-attention heads are removed first, cross-attention heads last.",
        source=_BLOG,
        theirs="Encoder heads go first; cross-attention heads survive longest.",
        quantity="shares of heads left: cross minus decoder, or decoder minus encoder",
        ours="Half of all heads are removed, one at a time, each time the one whose removal raises "
        "the loss least; the network is not trained further. Two differences compare the shares "
        "of heads that are left: cross-attention minus decoder, and decoder minus encoder. Shown: "
        "the smaller of the two mean differences, chosen separately for each network and for the "
        "mean of all networks. That mean is therefore not the mean of the values shown. The order "
        "is found separately on eight groups of ten sentences; the interval is Student's t "
        "interval over the groups.",
        unit="points",
        limits=_NO_RETRAINING,
        see="/heads?head=cross.0.0",
    ),
    Claim(
        id="fifth-free",
        family=PRUNING,
        claim="About a fifth of all heads can be removed from a trained network for free.",
        source=_QUOTED,
        theirs="About 20 % of the heads removed without a noticeable loss (English-French, WMT).",
        published=(0.2,),
        quantity=f"all heads removed with BLEU within {DROP}",
        ours=_REMOVABLE,
        threshold=0.2,
        see="/heads?head=encoder.0.0",
    ),
    Claim(
        id="third-removable",
        family=PRUNING,
        claim="Nearly a third of the heads can be removed without much harm.",
        source=_KIM,
        theirs="Nearly one third of the less important heads removed “without hurting the "
        "translation quality greatly” (one network from five languages to English).",
        quantity="BLEU lost without a third of encoder and cross heads",
        ours="BLEU lost without a third of the encoder and cross-attention heads, the two kinds "
        f"that the authors rank. We call more than 1 BLEU much harm. {_GREEDY}",
        unit="BLEU",
        threshold=1.0,
        above=False,
        see="/heads?head=encoder.0.0",
    ),
    Claim(
        id="cross-collapses",
        family=PRUNING,
        claim="Cross-attention depends more on having many heads than encoder self-attention does.",
        source=f"{_MICHEL}, abstract; the 60 % {_SECOND_HAND}",
        theirs="Quality collapses when more than 60 % of the cross-attention heads are removed, "
        "but not with 60 % of the encoder's.",
        quantity="BLEU lost without 60 %: cross minus encoder",
        ours="BLEU lost without 60 % of the cross-attention heads, minus BLEU lost without 60 % of "
        f"the encoder heads. {_GREEDY}",
        unit="BLEU",
        see="/heads?head=cross.0.0",
    ),
    Claim(
        id="last-cross-layer",
        family=PRUNING,
        claim="The last layer of cross-attention needs more than one head.",
        source=_QUOTED,
        theirs="13.56 BLEU lost when all heads of the layer but the best one are removed.",
        published=(13.56,),
        quantity="BLEU lost with one head left in that layer",
        ours="BLEU lost when all heads but one of the last cross-attention layer are removed; the "
        "one kept is the one that gives the highest BLEU. We call more than 1 BLEU a loss.",
        unit="BLEU",
        threshold=1.0,
        see="/heads?head=cross.3.0",
    ),
    Claim(
        id="few-heads-matter",
        family=IMPORTANCE,
        claim="Most encoder heads can be removed one at a time without a significant change of "
        "BLEU.",
        source=_QUOTED,
        theirs="88 of 96 encoder heads change BLEU by no significant amount (p < 0.01).",
        published=(88 / 96,),
        quantity="encoder heads without significant change",
        ours="Share of encoder heads whose removal does not change BLEU significantly. That does "
        "not prove that they do nothing: with more sentences, smaller changes become significant. "
        f"{_COUNTED}",
        threshold=0.5,
        see="/heads?head=encoder.0.0",
    ),
    Claim(
        id="removal-helps",
        family=IMPORTANCE,
        claim="Removing some encoder heads improves BLEU.",
        source=_QUOTED,
        theirs="4 of the 8 heads that change BLEU significantly improve it when they are removed "
        "(96 encoder heads, p < 0.01).",
        published=(4,),
        quantity="encoder heads whose removal improves BLEU (paper: of 96)",
        ours=f"Number of encoder heads whose removal improves BLEU significantly. {_COUNTED}",
        unit="heads",
        threshold=0.5,
        see="/heads?head=encoder.0.0",
    ),
    Claim(
        id="same-heads-matter",
        family=IMPORTANCE,
        claim="The most important heads are the same whichever languages are translated.",
        source=_KIM,
        theirs="The most important heads are very similar across language pairs (one network).",
        quantity="rank correlation of importance, two networks",
        ours="Rank correlation (Spearman) between the importance of heads and that of their "
        "counterparts, averaged over the three kinds. The counterparts are in the other "
        "implementation's network of the same direction, which was trained separately. We call "
        "a correlation above 0.5 similar.",
        of_pairs=True,
        unit="correlation",
        threshold=0.5,
        other_test="No result here would decide the claim: it is about several language pairs in "
        "one network, while the test here compares networks that were trained separately for one "
        "pair.",
        see="/comparison",
    ),
    Claim(
        id="positional-heads",
        family=ROLES,
        claim="Some encoder heads nearly always attend to the neighbouring token.",
        source=_BLOG,
        theirs="Such positional heads exist: at least 90 % of their largest weights are at one "
        "offset, the token before or after.",
        published=(0.9,),
        quantity="largest weights on one neighbour, best head",
        ours="For each encoder head, the share of its largest weights on the token before, or on "
        "the token after. Shown: the highest of these shares. <eos> is left out as a query and as "
        "a key, as in the paper.",
        threshold=0.9,
        null="keys drawn at random",
        see="/heads?head=encoder.0.0",
    ),
    Claim(
        id="rare-word-head",
        family=ROLES,
        claim="A head in the encoder's first layer attends to the rarest token of the sentence.",
        source=_BLOG,
        theirs="66 % of the largest weights of one head are on the rarest token, in sentences "
        "whose rarest token is not among the 500 most frequent (OpenSubtitles); on WMT, more than "
        "half are on one of the two rarest.",
        published=(0.66,),
        quantity="largest weights on the rarest token, best head",
        ours="For each head in the encoder's first layer, the share of its largest weights on the "
        "sentence's rarest token. Shown: the highest of these shares. A sentence counts only if "
        "its rarest token is not among the 500 most frequent. Frequencies are those in the "
        "captions of the training data; if several tokens tie for the rarest, all count.",
        threshold=0.5,
        null="keys drawn at random",
        see="/heads?head=encoder.0.0",
    ),
    Claim(
        id="eos-and-punctuation",
        family=ROLES,
        claim="Most of the cross-attention goes to tokens without content.",
        source="arXiv 2605.01229 (2026), abstract",
        theirs="83–91 % on end-of-sentence tokens, language tags and punctuation (NLLB-600M).",
        published=(0.83, 0.91),
        quantity="cross-attention on <eos> and punctuation",
        ours="Share of the cross-attention on <eos> and punctuation, averaged over all heads and "
        "rows. These networks have no language tags.",
        threshold=0.5,
        limits="That would not refute the claim, which is about a network for 200 languages with "
        "language tags; the paper traces the effect to that network's vocabulary.",
        null="uniform attention",
        see="/heads?head=cross.0.0",
    ),
    Claim(
        id="early-input-layer",
        family=ALIGNMENT,
        claim="A word aligns best in an early layer at the decoder position that reads it, but in "
        "a later layer at the position that produces it.",
        source=_KOBAYASHI,
        theirs="Reading position: best in layer 2 of 6 in all five networks. Producing position: "
        "best in layer 5 (layer 4 in one network).",
        published=(3,),
        quantity="best layer: producing minus reading position",
        ours="Layer with the lowest alignment error at the position that produces a word, minus "
        "the layer with the lowest error at the position that reads it. The word is read one step "
        "after it is produced. Alignments are read from the mean weights of a layer's heads.",
        unit="layers",
        see="/heads?head=cross.0.0",
    ),
    Claim(
        id="input-reading-better",
        family=ALIGNMENT,
        claim="A word aligns better at the decoder position that reads it than at the one that "
        "produces it.",
        source=_KOBAYASHI,
        theirs="Alignment error in the best layer 29.8 % against 47.7 % (mean of five networks).",
        published=(0.179,),
        quantity="alignment error: producing minus reading position",
        ours="Lowest alignment error of any layer at the position that produces a word, minus the "
        "lowest at the position that reads it. Alignments are read from the mean weights of a "
        "layer's heads.",
        unit="points",
        see="/heads?head=cross.0.0",
    ),
    Claim(
        id="norms-align-better",
        family=ALIGNMENT,
        claim="The norm of the vector that a source word adds aligns better than its attention "
        "weight.",
        source=_KOBAYASHI,
        theirs="Alignment error 25.0 % by norms against 29.8 % by weights (best layer, position "
        "that reads the word, mean of five networks).",
        published=(0.048,),
        quantity="alignment error: weights minus norms",
        ours="Lowest alignment error of any layer by weights, minus the lowest by norms, at the "
        "position that reads the word.",
        unit="points",
        see="/heads?head=cross.0.0",
    ),
    Claim(
        id="source-share-falls",
        family=SOURCES,
        claim="The source matters less and less along the target sentence.",
        source=_SHARES,
        theirs="The share of the source falls along the sentence.",
        quantity="share of the source: last minus first third",
        ours="Mean share of the source in the last third of the target, minus its share in the "
        f"first third. {_NORM_ROLLOUT}",
        unit="points",
        above=False,
        other_test=_OTHER_METHOD,
        see="/why",
    ),
    Claim(
        id="source-share-at-eos",
        family=SOURCES,
        claim="The source matters less where the end of the sentence is produced.",
        source=_SHARES,
        theirs="The share of the source drops at <eos>.",
        quantity="share of the source: <eos> minus preceding token",
        ours="Share of the source where <eos> is produced, minus its share where the preceding "
        f"token is produced. {_NORM_ROLLOUT}",
        unit="points",
        above=False,
        other_test=_OTHER_METHOD,
        see="/why",
    ),
    Claim(
        id="value-zeroing-faithful",
        family=SOURCES,
        claim="Zeroing values tells where a token came from better than gradient × input does.",
        source=_FAITHFUL,
        theirs="A student network gains most from attention, value zeroing and layer gradient × "
        "activation; it gains less from saliency, integrated gradients, DeepLIFT, input × gradient "
        "and GradientShap (German, French and Arabic to English; BLEU of the student).",
        quantity="rank correlation with Shapley values: difference",
        ours=f"{_SHAPLEY}of value zeroing in all layers, minus that of gradient × input.",
        unit="correlation",
        other_test=_OTHER_MEASURE,
        see="/why",
    ),
    Claim(
        id="attention-faithful",
        family=SOURCES,
        claim="Cross-attention weights tell where a token came from better than gradient × input "
        "does.",
        source=_FAITHFUL,
        theirs="A student network gains most from attention, value zeroing and layer gradient × "
        "activation; it gains less from saliency, integrated gradients, DeepLIFT, input × gradient "
        "and GradientShap (German, French and Arabic to English; BLEU of the student).",
        quantity="rank correlation with Shapley values: difference",
        ours=f"{_SHAPLEY}of mean cross-attention weights, minus that of gradient × input.",
        unit="correlation",
        other_test=_OTHER_MEASURE,
        see="/why",
    ),
    Claim(
        id="fixed-positional-heads",
        family=ROLES,
        claim="All but one encoder head per layer can be a fixed positional pattern.",
        source="Raganato, Scherrer & Tiedemann 2020, arXiv 2002.10260, abstract",
        theirs="Fixing all but one head per layer during training does not change the translation "
        "quality; where training data are scarce, it gains up to 3 BLEU.",
        quantity="BLEU gained with fixed heads",
        ours="Nothing: no network here was trained with fixed heads.",
        unit="BLEU",
        untestable="The claim is about networks that are trained with fixed heads from the start, "
        "and no network here is.",
        see="/heads?head=encoder.0.0",
    ),
)
"""All claims, in the order in which they are shown."""
