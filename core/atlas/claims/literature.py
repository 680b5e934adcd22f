"""The claims of the board, with their sources, the numbers they report, and how each is tested."""

from __future__ import annotations

from urllib.parse import urlencode

from core.atlas.claims import quoted
from core.atlas.claims.claim import Claim, amount

DROP = quoted.HALF_PRUNED["lost"]
"""The largest drop in BLEU that still counts as almost no loss."""
SIGNIFICANT, STRICT, LENIENT = quoted.UNCHANGED["p"], 0.001, 0.05
"""Significance levels for one head's change of BLEU: the paper's, a stricter and a laxer one."""
COLLAPSED = quoted.CROSS_COLLAPSES["removed"] / 100
"""The share of a kind's heads that is removed to compare cross-attention and encoder."""
DRAWN = 100
"""How many sentences are drawn for statistics that take long."""
JUDGED = 600
"""How many sentences are drawn for statistics of wrong words."""
ABLATED = 400
"""How many sentences are drawn for the loss without single heads."""
UNREADABLE = 200
"""How many sentences are drawn in the language that a network writes, and given to it."""
CRAZY = quoted.CRAZY_HEADS["heads"] / quoted.CRAZY_HEADS["of"]
"""The share of decoder heads that are said to make most of what a network makes up."""
ARTICLES = 200
"""How many sentences are drawn for the statistic of articles' genders."""
TRIGGERS = 2
"""How many source words are few."""
ALPHA = 0.2
"""The weight of a token's own probability in RAUQ's confidence."""
SINK = 0.3
"""A head whose mean weight on <bos> is larger has a sink."""
TOO_MUCH = 2
"""Sets of heads without which the loss is more than this many times as high are not translated."""
FREQUENT = int(quoted.RARE_WORDS["frequent"])
"""How many tokens count as frequent; a sentence of only these tokens has no rare token."""

_COLLAPSED = amount(COLLAPSED, "share")
_NO_RETRAINING = (
    "Values on the other side would not refute the claim: its authors train the gates that remove "
    "heads. Here, heads are removed from a network that is not trained further."
)
_TRAINED_GATES = "gates that are trained to remove heads"
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
    f"{_GREEDY} Sets that raise that loss more than {TOO_MUCH}-fold are not translated."
)
_RELEVANCE = (
    "Each token's logit is traced back by AttnLRP (Achtibat et al. 2024); the share is the "
    "source's part of the relevances of source and target prefix, by size. The authors' "
    f"layer-wise relevance propagation has other rules. {DRAWN} sentences."
)
_LENS = (
    "The Jacobian lens reads the five most probable target tokens from the state of each source "
    "token. A hit is a token of the network's own translation; hits with another sentence's "
    f"translation are subtracted. {DRAWN} sentences. "
)
_LOGIT_LENS = (
    "The network's own classifier reads each decoder state; what counts is how often its most "
    f"probable token is the network's output. {DRAWN} sentences. "
)
_RIGHT = (
    "A token of the network's own greedy translation is called wrong if no word of the reference "
    "contains it. "
)
_POSITION = "at the better of the two decoder positions (producing or reading the word)"
_OTHER_MEASURE = (
    "No result here would decide the claim: its authors train a student with each attribution and "
    "measure its BLEU."
)
_SEPARATE = (
    "No result here would decide the claim: it is about several language pairs in one network, "
    "while the test here compares networks that were trained separately for one pair."
)
_SHAPLEY = (
    "Each method's scores of the source words are correlated (Spearman) with their exact Shapley "
    "values, averaged over target tokens and sentences of at most 9 words. Shown: the correlation "
)


def _difference(quote: quoted.Quote, larger: str, smaller: str) -> tuple[float]:
    """Return a difference of two percentages, with the decimals that the paper prints."""
    return (round((quote[larger] - quote[smaller]) / 100, 3),)


PRUNING, IMPORTANCE, ROLES, ALIGNMENT, SOURCES, STATES, ERRORS = FAMILIES = (
    "Pruning",
    "Single heads",
    "What heads attend to",
    "Word alignment",
    "Where tokens come from",
    "What states say",
    "Wrong words",
)

LITERATURE: tuple[Claim, ...] = (
    Claim(
        id="encoder-heads-removable",
        family=PRUNING,
        claim="Most encoder heads can be removed with almost no loss of translation quality.",
        quote=quoted.ENCODER_PRUNED,
        published=(quoted.ENCODER_PRUNED["removed"] / quoted.ENCODER_PRUNED["heads"],),
        quantity=f"encoder heads removed with BLEU within {DROP}",
        ours=f"Largest share of encoder heads without which BLEU is within {DROP} of the whole "
        f"network's. {_GREEDY}",
        threshold=0.5,
        limits=_NO_RETRAINING,
        decided_by=_TRAINED_GATES,
        see="/heads?head=encoder.0.0",
    ),
    Claim(
        id="half-of-all-heads",
        family=PRUNING,
        claim="More than half of all heads can be removed with almost no loss.",
        quote=quoted.HALF_PRUNED,
        published=(0.5,),
        quantity=f"all heads removed with BLEU within {DROP}",
        ours=_REMOVABLE,
        threshold=0.5,
        limits=_NO_RETRAINING,
        decided_by=_TRAINED_GATES,
        see="/heads?head=encoder.0.0",
    ),
    Claim(
        id="removal-order",
        family=PRUNING,
        claim="Encoder self-attention heads are removed first, cross-attention heads last.",
        quote=quoted.REMOVAL_ORDER,
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
        decided_by=_TRAINED_GATES,
        see="/heads?head=cross.0.0",
    ),
    Claim(
        id="fifth-free",
        family=PRUNING,
        claim="About a fifth of all heads can be removed from a trained network for free.",
        quote=quoted.FIFTH_PRUNED,
        published=(quoted.FIFTH_PRUNED["removed"] / 100,),
        quantity=f"all heads removed with BLEU within {DROP}",
        ours=f"{_REMOVABLE} The authors rank the heads of a larger network by a gradient.",
        threshold=quoted.FIFTH_PRUNED["removed"] / 100,
        see="/heads?head=encoder.0.0",
    ),
    Claim(
        id="third-removable",
        family=PRUNING,
        claim="Nearly a third of the heads can be removed without much harm.",
        quote=quoted.THIRD_PRUNED,
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
        quote=quoted.CROSS_COLLAPSES,
        quantity=f"BLEU lost without {_COLLAPSED}: cross minus encoder",
        ours=f"BLEU lost without {_COLLAPSED} of the cross-attention heads, rounded to whole "
        f"heads, minus BLEU lost without as many of the encoder heads. {_GREEDY}",
        unit="BLEU",
        see="/heads?head=cross.0.0",
    ),
    Claim(
        id="last-cross-layer",
        family=PRUNING,
        claim="The last layer of cross-attention needs more than one head.",
        quote=quoted.LAST_CROSS_LAYER,
        published=(quoted.LAST_CROSS_LAYER["lost"],),
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
        quote=quoted.UNCHANGED,
        published=(quoted.UNCHANGED["unchanged"] / quoted.UNCHANGED["heads"],),
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
        quote=quoted.HELPFUL,
        published=(quoted.HELPFUL["improve"],),
        quantity=f"encoder heads whose removal improves BLEU (paper: of {quoted.HELPFUL['heads']})",
        ours="Number of encoder heads whose removal improves BLEU significantly; more than 0.5 "
        f"means at least one. {_COUNTED}",
        unit="heads",
        threshold=0.5,
        decided_by="more sentences",
        see="/heads?head=encoder.0.0",
    ),
    Claim(
        id="same-heads-matter",
        family=IMPORTANCE,
        claim="The most important heads are the same whichever languages are translated.",
        quote=quoted.SAME_HEADS,
        quantity="rank correlation of importance, two networks",
        ours="Rank correlation (Spearman) between the importance of heads and that of their "
        "counterparts, averaged over the three kinds. The counterparts are in the other "
        "implementation's network of the same direction, which was trained separately. We call "
        "a correlation above 0.5 similar.",
        of_pairs=True,
        unit="correlation",
        threshold=0.5,
        other_test=_SEPARATE,
        decided_by="one network for several language pairs",
        see="/comparison",
    ),
    Claim(
        id="positional-heads",
        family=ROLES,
        claim="Some encoder heads nearly always attend to the neighbouring token.",
        quote=quoted.POSITIONAL,
        quantity="largest weights on one neighbour, best head",
        ours="For each encoder head, the share of its largest weights on the token before, or on "
        "the token after. Shown: the highest of these shares. <eos> is left out here as a query "
        "and as a key; the authors say so for a head's confidence and for syntactic heads, not for "
        "positional ones.",
        threshold=quoted.POSITIONAL["share"] / 100,
        null="keys drawn at random",
        see="/heads?head=encoder.0.0",
    ),
    Claim(
        id="rare-word-head",
        family=ROLES,
        claim="A head in the encoder's first layer attends to the rarest token of the sentence.",
        quote=quoted.RARE_WORDS,
        published=(quoted.RARE_WORDS["share"] / 100,),
        quantity="largest weights on the rarest token, best head",
        ours="For each head in the encoder's first layer, the share of its largest weights on the "
        "sentence's rarest token. Shown: the highest of these shares. A sentence counts only if "
        f"its rarest token is not among the {FREQUENT} most frequent. Frequencies are those in the "
        "captions of the training data; if several tokens tie for the rarest, all count.",
        threshold=0.5,
        null="keys drawn at random",
        see="/heads?head=encoder.0.0",
    ),
    Claim(
        id="eos-and-punctuation",
        family=ROLES,
        claim="Most of the cross-attention goes to tokens without content.",
        quote=quoted.EMPTY,
        published=(quoted.EMPTY["least"] / 100, quoted.EMPTY["most"] / 100),
        quantity="cross-attention on <eos> and punctuation",
        ours="Share of the cross-attention on <eos> and punctuation, averaged over all heads and "
        "rows. These networks have no language tags.",
        threshold=0.5,
        limits="Values on the other side would not refute the claim, which is about a network for "
        "200 languages with language tags; the paper traces the effect to that network's "
        "vocabulary.",
        decided_by="a network for many languages, with language tags",
        null="uniform attention",
        see="/heads?head=cross.0.0",
    ),
    Claim(
        id="early-input-layer",
        family=ALIGNMENT,
        claim="A word aligns best in an early layer at the decoder position that reads it, but in "
        "a later layer at the position that produces it.",
        quote=quoted.BEST_LAYERS,
        published=tuple(
            quoted.BEST_LAYERS[name] - quoted.BEST_LAYERS["reading"]
            for name in ("lowest", "producing")
        ),
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
        quote=quoted.READING_ERROR,
        published=_difference(quoted.READING_ERROR, "producing", "weights"),
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
        quote=quoted.NORM_ERROR,
        published=_difference(quoted.NORM_ERROR, "weights", "norms"),
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
        quote=quoted.SOURCE_SHARE,
        quantity="share of the source: last minus first third",
        ours="Mean share of the source in the last third of the target, minus its share in the "
        f"first third. {_RELEVANCE}",
        unit="points",
        above=False,
        see="/why",
    ),
    Claim(
        id="source-share-at-eos",
        family=SOURCES,
        claim="The source matters less where the end of the sentence is produced.",
        quote=quoted.SOURCE_AT_EOS,
        quantity="share of the source: <eos> minus preceding token",
        ours="Share of the source where <eos> is produced, minus its share where the preceding "
        f"token is produced. {_RELEVANCE}",
        unit="points",
        above=False,
        see="/why",
    ),
    Claim(
        id="gender-by-few-words",
        family=SOURCES,
        claim="Single source words trigger the gender that a translation chooses.",
        quote=quoted.TRIGGERS,
        quantity="preference for an article that two source words bring",
        ours="log P of the reference's first article minus log P of an article of another gender, "
        "after the same words. Shown: what this preference gains over seeing no source word if the "
        f"network sees only the {TRIGGERS} words with the largest gradient × input of it, as a "
        "share of what it gains by seeing all. We call more than half a trigger. Sentences in "
        "which the network prefers the other article are left out; "
        f"{ARTICLES} sentences, networks that write German. The article may belong to any noun.",
        threshold=0.5,
        other_test="No result here would decide the claim: it is about people whose gender the "
        "source leaves open, and does not say how few words suffice.",
        decided_by="sentences about such people",
        null="as many words, drawn at random",
        see="/why",
    ),
    Claim(
        id="value-zeroing-faithful",
        family=SOURCES,
        claim="Zeroing values tells where a token came from better than gradient × input does.",
        quote=quoted.FAITHFUL,
        quantity="rank correlation with Shapley values: difference",
        ours=f"{_SHAPLEY}of value zeroing in all layers, minus that of gradient × input.",
        unit="correlation",
        other_test=_OTHER_MEASURE,
        decided_by="a student trained with each attribution",
        see="/why",
    ),
    Claim(
        id="attention-faithful",
        family=SOURCES,
        claim="Cross-attention weights tell where a token came from better than gradient × input "
        "does.",
        quote=quoted.FAITHFUL,
        quantity="rank correlation with Shapley values: difference",
        ours=f"{_SHAPLEY}of mean cross-attention weights, minus that of gradient × input.",
        unit="correlation",
        other_test=_OTHER_MEASURE,
        decided_by="a student trained with each attribution",
        see="/why",
    ),
    Claim(
        id="aligning-heads-exist",
        family=ALIGNMENT,
        claim="Every network has attention heads that align target tokens with source tokens.",
        quote=quoted.HEADS_EXIST,
        quantity="alignment error: diagonal minus best head",
        ours="Alignment error of the diagonal (each target word linked to the source word at the "
        "same relative position), minus that of the cross-attention head with the lowest error, by "
        f"weights {_POSITION}.",
        unit="points",
        see="/heads?head=cross.0.0",
    ),
    Claim(
        id="aligning-heads-sparse",
        family=ALIGNMENT,
        claim="Only a small fraction of the heads align.",
        quote=quoted.HEADS_SPARSE,
        quantity="cross-attention heads that align",
        ours="Share of the cross-attention heads whose alignment error, by weights "
        f"{_POSITION}, is below that of the diagonal. We call less than a quarter a small "
        "fraction. The authors count all heads of networks without cross-attention; where each "
        "kind has as many heads, the share of all is a third of the one shown.",
        threshold=0.25,
        above=False,
        see="/heads?head=cross.0.0",
    ),
    Claim(
        id="aligning-heads-causal",
        family=ALIGNMENT,
        claim="Without the head that aligns best, translation suffers more than without another.",
        quote=quoted.HEADS_CAUSAL,
        quantity="loss gained without best aligner minus without another",
        ours="Loss per token gained without the cross-attention head that aligns best, minus the "
        f"mean gain without one other cross-attention head. Zero ablation, {ABLATED} sentences.",
        unit="nats",
        see="/heads?head=cross.0.0",
    ),
    Claim(
        id="other-heads-idle",
        family=ALIGNMENT,
        claim="Without another head than the best aligner, translation hardly suffers.",
        quote=quoted.HEADS_CAUSAL,
        quantity="loss gained without another, of that without best aligner",
        ours="Mean loss gained without one of the other cross-attention heads, as a share of that "
        "gained without the head that aligns best. We call less than a tenth hardly any. Some "
        f"of the others align too, but less well. Zero ablation, {ABLATED} sentences.",
        threshold=0.1,
        above=False,
        see="/heads?head=cross.0.0",
    ),
    Claim(
        id="aligning-heads-same",
        family=ALIGNMENT,
        claim="The heads that align are the same whichever languages are translated.",
        quote=quoted.HEADS_SAME,
        quantity="rank correlation of alignment error, two networks",
        ours="Rank correlation (Spearman) between the alignment errors of cross-attention heads, "
        f"by weights {_POSITION}, and those of their counterparts in the other "
        "implementation's network of the same direction. Counterparts are heads with similar maps "
        "on other sentences. We call a correlation above 0.5 the same.",
        of_pairs=True,
        unit="correlation",
        threshold=0.5,
        other_test=_SEPARATE,
        decided_by="one network for several language pairs",
        see="/comparison",
    ),
    Claim(
        id="penultimate-layer-aligns",
        family=ALIGNMENT,
        claim="The layer before the last aligns better than the last.",
        quote=quoted.PENULTIMATE,
        quantity="alignment error: last layer minus the one before",
        ours="Alignment error of the last layer's mean weights, minus that of the layer before, "
        "both at the decoder position that produces a word.",
        unit="points",
        see="/heads?head=cross.0.0",
    ),
    Claim(
        id="translated-in-embeddings",
        family=STATES,
        claim="Translation already happens in the input embeddings.",
        quote=quoted.IN_EMBEDDINGS,
        quantity="hits in the embeddings, own minus another translation",
        ours=f"{_LENS}Shown: the share of hits in the source embeddings. The lens includes the "
        "average effect of all later layers, so a hit says what the network will make of a token, "
        "not that it is translated already. The authors train a probe instead.",
        unit="points",
        see="/steps",
    ),
    Claim(
        id="translated-layer-by-layer",
        family=STATES,
        claim="Translation progresses over the encoder layers.",
        quote=quoted.IN_EMBEDDINGS,
        quantity="hits, last encoder layer minus embeddings",
        ours=f"{_LENS}Shown: the share of hits after the last encoder layer, minus that in the "
        "embeddings. The authors train a probe instead.",
        unit="points",
        see="/steps",
    ),
    Claim(
        id="first-decoder-layer",
        family=STATES,
        claim="A lower decoder layer does not do much of the decoding.",
        quote=quoted.LOWER_DECODER,
        quantity="agreement gained in the first decoder layer, in even shares",
        ours=f"{_LOGIT_LENS}Shown: what the first layer adds to that share, divided by what each "
        "layer would add if all added the same. We call less than half of that not much. The "
        "authors train a projection to the classifier; without it, a layer may seem to do less.",
        unit="ratio",
        threshold=0.5,
        above=False,
        see="/steps",
    ),
    Claim(
        id="jacobian-lens-better",
        family=STATES,
        claim="The Jacobian lens reads states better than the logit lens.",
        quote=quoted.JACOBIAN_LENS,
        quantity="agreement with the output: Jacobian minus logit lens",
        ours="How often a lens's most probable token is the network's own, averaged over the "
        "decoder's embeddings and layers without the last: Jacobian lens minus logit lens. "
        f"{DRAWN} sentences.",
        unit="points",
        see="/steps",
    ),
    Claim(
        id="errors-previous-token",
        family=ERRORS,
        claim="Some decoder heads look less at the token before where the output is wrong.",
        quote=quoted.LESS_ATTENTION,
        quantity="AUROC of less attention to the token before",
        ours=f"{_RIGHT}Shown: how often a wrong token has less weight on the token before than a "
        "right one (AUROC), where the decoder reads it. The head is the best on the sentences with "
        f"an even number; those with an odd one test it. 0.5 is chance. {JUDGED} sentences.",
        unit="AUROC",
        threshold=0.5,
        null="a head that ignores errors",
        see="/heads?head=decoder.0.0",
    ),
    Claim(
        id="probability-tells-quality",
        family=ERRORS,
        claim="A network's own probabilities tell how good its translation is.",
        quote=quoted.PROBABILITY,
        quantity="rank correlation of surprisal with wrong tokens",
        ours=f"{_RIGHT}Rank correlation (Spearman) over sentences between mean surprisal and the "
        f"share of wrong tokens. {JUDGED} sentences.",
        unit="correlation",
        see="/together",
    ),
    Claim(
        id="attention-adds-to-probability",
        family=ERRORS,
        claim="Such heads and probabilities together tell wrong output better than probabilities "
        "alone.",
        quote=quoted.RECURRENT,
        quantity="rank correlation with wrong tokens: RAUQ minus surprisal",
        ours=f"{_RIGHT}Rank correlation (Spearman) over sentences between the share of wrong "
        f"tokens and RAUQ's uncertainty (α = {ALPHA}, all layers), minus that of mean surprisal. "
        f"{JUDGED} sentences.",
        unit="correlation",
        limits="Values on the other side would not refute the claim: its authors judge "
        "translations by a trained metric; here a synonym of the reference counts as wrong.",
        decided_by="a trained metric of quality",
        see="/heads?head=decoder.0.0",
    ),
    Claim(
        id="few-heads-hallucinate",
        family=ERRORS,
        claim="A few decoder heads make most of what a network makes up.",
        quote=quoted.CRAZY_HEADS,
        published=(quoted.CRAZY_HEADS["share"] / 100,),
        quantity="made-up translations that are gone without a few heads",
        ours="The network gets sentences in the language that it writes. A greedy translation is "
        "made up if most of its words are not in the given sentence. Shown: how many fewer are "
        f"made up without {amount(CRAZY, 'share')} of the decoder's self-attention heads, "
        "rounded to whole heads: those whose single removal leaves fewest, chosen on every second "
        "sentence and tested on the others. A negative value means that more are made up. "
        f"{UNREADABLE} sentences, zero ablation.",
        threshold=0.5,
        other_test="No result here would decide the claim: it is about a speech recogniser given "
        "sounds without speech, while a translator gets the wrong language here.",
        decided_by="a speech recogniser given sounds without speech",
        null="as many other heads, drawn at random",
        see="/heads?head=decoder.0.0",
    ),
    Claim(
        id="sinks-exist",
        family=ROLES,
        claim="A head pays strong attention to the first token, as a sink.",
        quote=quoted.SINKS,
        quantity="largest mean weight on <bos>",
        ours="Mean weight on <bos> of the decoder head where it is largest, without the first row, "
        f"which sees nothing else. We call more than half strong. {DRAWN} sentences.",
        threshold=0.5,
        see="/heads?head=decoder.0.0",
    ),
    Claim(
        id="sinks-are-empty",
        family=ROLES,
        claim="Some attention sinks are no-ops: what they add is negligible.",
        quote=quoted.EMPTY_SINKS,
        quantity="length of the sink's value in others' lengths",
        ours=f"A decoder head with a mean weight above {amount(SINK, 'share')} on <bos> has a "
        "sink. Shown: the length of its value after the output projection, divided by the mean "
        "length of the other tokens' values, in the head where that is least. We call less than a "
        f"tenth negligible. The authors study other networks. {DRAWN} sentences.",
        threshold=0.1,
        above=False,
        see="/heads?head=decoder.0.0",
    ),
    Claim(
        id="role-by-a-jump",
        family=ROLES,
        claim="Heads begin to look at the token before abruptly during training.",
        quote=quoted.ABRUPT,
        quantity="part of the time until then that the rise takes",
        ours="In the decoder head with the largest weight on the token before, the steps in which "
        "this weight goes from a tenth to nine tenths of its rise, as a share of all steps until "
        "then. We call less than half abrupt. The interval is not a confidence interval: its ends "
        "are the least and the largest share that agree with the stored snapshots.",
        threshold=0.5,
        above=False,
        other_test="No result here would decide the claim: the paper varies the amount of training "
        "data, while one run is followed over time here.",
        decided_by="networks trained on different amounts of data",
        see="/training",
    ),
    Claim(
        id="fixed-positional-heads",
        family=ROLES,
        claim="All but one encoder head per layer can be a fixed positional pattern.",
        quote=quoted.FIXED_HEADS,
        quantity="BLEU gained with fixed heads",
        ours="Nothing: no network here was trained with fixed heads.",
        unit="BLEU",
        untestable="The claim is about networks that are trained with fixed heads from the start, "
        "and no network here is.",
        decided_by="networks trained with fixed heads",
        see="/heads?head=encoder.0.0",
    ),
)
"""All claims, in the order in which they are shown."""


def _in(source: str, page: str = "", /, **view: str | int) -> str:
    """Return a link, relative to the app, to a page with a sentence; `view` is what it shows."""
    chosen = {"direction": "de-en", "model": "scratch", "source": source}
    return f"/{page}?{urlencode(chosen | view)}"


_SHIRTS = "Ein Mann in einem roten Hemd spricht mit einem Mann in einem blauen Hemd."
_CHILDREN = "Zwei Kinder spielen im Schnee, während ihre Mutter auf einer Bank sitzt."
_LAW = "Die Regierung hat gestern ein neues Gesetz über die Steuern beschlossen."
_COURT = "Das Gericht verurteilte den Angeklagten wegen Betrugs zu drei Jahren Haft."
_BOYS = "Two boys are playing football on the beach."
_DOG = "A woman is holding a small dog."
_BEST = {"kind": "cross", "layer": 0, "head": 0}
EXAMPLES = {
    "positional-heads": _in(_SHIRTS, kind="encoder", layer=1, head=1),
    "aligning-heads-exist": _in(_SHIRTS, **_BEST),
    "aligning-heads-sparse": _in(_SHIRTS, **_BEST),
    "aligning-heads-causal": _in(_SHIRTS, **_BEST, edits="off.cross.0.0"),
    "other-heads-idle": _in(_SHIRTS, kind="cross", layer=2, head=0, edits="off.cross.2.0"),
    "source-share-falls": _in(_CHILDREN, "why", why_token=12),
    "source-share-at-eos": _in(_CHILDREN, "why", why_token=14),
    "value-zeroing-faithful": _in(_CHILDREN, "why", why_token=8),
    "attention-faithful": _in(_CHILDREN, "why", why_token=8),
    "gender-by-few-words": _in(_DOG, "why", direction="en-de", why_token=0),
    "translated-in-embeddings": _in(_CHILDREN, "why", why_knew=5),
    "translated-layer-by-layer": _in(_CHILDREN, "why", why_knew=5),
    "sinks-exist": _in(_LAW, kind="decoder", layer=1, head=0),
    "sinks-are-empty": _in(_LAW, kind="decoder", layer=1, head=0),
    "errors-previous-token": _in(_COURT, kind="decoder", layer=1, head=2),
    "probability-tells-quality": _in(_COURT, kind="cross", layer=0, head=0, q=2),
    "attention-adds-to-probability": _in(_COURT, kind="decoder", layer=1, head=2),
    "few-heads-hallucinate": _in(_BOYS, model="captions", kind="decoder", layer=0, head=0),
    "role-by-a-jump": "/training?direction=de-en&model=scratch&kind=decoder&layer=2&head=1",
}
"""A link for each claim that one sentence, or one head's training, can show."""
