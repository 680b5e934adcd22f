"""What papers report about heads: each number once, beside its source, for every text that uses it.

Numbers are as printed in the paper, percentages as 66 rather than 0.66.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

_VOITA = "Voita et al. 2019, arXiv 1905.09418, “Analyzing Multi-Head Self-Attention …”"
_BLOG = f"{_VOITA}, in the authors' summary (lena-voita.github.io)"
_MICHEL = (
    "Michel, Levy & Neubig 2019, arXiv 1905.10650, “Are Sixteen Heads Really Better than One?”"
)
_SECOND_HAND = "taken from summaries of the paper, not checked against it"
_QUOTED = f"{_MICHEL}; {_SECOND_HAND}"
_KIM = (
    "Kim et al. 2021, arXiv 2105.14940, “Do Multilingual Neural Machine Translation Models "
    "Contain Language Pair Specific Attention Heads?”, abstract; the languages are from a summary "
    "of the paper"
)
_KOBAYASHI = (
    "Kobayashi et al. 2020, arXiv 2004.10102, “Attention is Not Only a Weight …”, the authors' "
    "notebook"
)
_SHARES = (
    "Voita, Sennrich & Titov 2021, arXiv 2010.10907, “Analyzing the Source and Target "
    "Contributions …”, in the authors' summary (lena-voita.github.io)"
)

_XU = "Xu et al. 2021, arXiv 2003.09586, “Probing Word Translations in the Transformer”, abstract"
_LIU = "Liu et al. 2026, “Token Alignment Heads” (openreview.net/forum?id=q8fTgw8e5E), abstract"
_RAUQ = "Vazhentsev et al. 2026, arXiv 2505.20045 (RAUQ), abstract"

_COLLAPSED = 60
_SIGNIFICANCE = {"heads": 96, "p": 0.01}
_ERRORS = {"norms": 25.0, "weights": 29.8, "producing": 47.7, "networks": "five"}


@dataclass(frozen=True)
class Quote:
    """A paper's result: its source, and a sentence that names its numbers as {placeholders}."""

    source: str
    sentence: str
    numbers: Mapping[str, float | str]

    def __str__(self) -> str:
        return self.sentence.format_map(self.numbers)

    def __getitem__(self, name: str) -> float:
        """Return a number by name. Raises KeyError, and TypeError for a number in words."""
        number = self.numbers[name]
        if isinstance(number, str):
            raise TypeError(f"{name} is written out as “{number}”")
        return number


ENCODER_PRUNED = Quote(
    f"{_VOITA}, abstract",
    "{removed} of {heads} encoder heads removed for a loss of {lost} BLEU (English-Russian, WMT).",
    {"removed": 38, "heads": 48, "lost": 0.15},
)
HALF_PRUNED = Quote(
    _BLOG,
    "More than {removed} of the heads of all kinds removed for a loss of at most {lost} BLEU.",
    {"removed": "half", "lost": 0.25},
)
REMOVAL_ORDER = Quote(_BLOG, "Encoder heads go first; cross-attention heads survive longest.", {})
FIFTH_PRUNED = Quote(
    _QUOTED,
    "About {removed} % of the heads removed without a noticeable loss (English-French, WMT).",
    {"removed": 20},
)
THIRD_PRUNED = Quote(
    _KIM,
    "Nearly {removed} of the less important heads removed “without hurting the translation "
    "quality greatly” ({networks} network from {languages} languages to English).",
    {"removed": "one third", "networks": "one", "languages": "five"},
)
CROSS_COLLAPSES = Quote(
    f"{_MICHEL}, abstract; the {_COLLAPSED} % {_SECOND_HAND}",
    "Quality collapses when more than {removed} % of the cross-attention heads are removed, but "
    "not with {removed} % of the encoder's.",
    {"removed": _COLLAPSED},
)
LAST_CROSS_LAYER = Quote(
    _QUOTED,
    "{lost} BLEU lost when all heads of the layer but the best one are removed.",
    {"lost": 13.56},
)
UNCHANGED = Quote(
    _QUOTED,
    "{unchanged} of {heads} encoder heads change BLEU by no significant amount (p < {p}).",
    {"unchanged": 88, **_SIGNIFICANCE},
)
HELPFUL = Quote(
    _QUOTED,
    "{improve} of the {change} heads that change BLEU significantly improve it when they are "
    "removed ({heads} encoder heads, p < {p}).",
    {"improve": 4, "change": _SIGNIFICANCE["heads"] - UNCHANGED["unchanged"], **_SIGNIFICANCE},
)
SAME_HEADS = Quote(
    _KIM,
    "The most important heads are very similar across language pairs ({networks} network).",
    {"networks": "one"},
)
POSITIONAL = Quote(
    _BLOG,
    "A head is called positional if at least {share} % of its largest weights are at one offset "
    "(in practice, the token before or after); such heads exist.",
    {"share": 90},
)
RARE_WORDS = Quote(
    _BLOG,
    "{share} % of the largest weights of one head are on the rarest token, in sentences whose "
    "rarest token is not among the {frequent} most frequent (OpenSubtitles); on WMT, more than "
    "{wmt} are on one of the two rarest.",
    {"share": 66, "frequent": 500, "wmt": "half"},
)
EMPTY = Quote(
    "“Attention Sinks in Massively Multilingual Neural Machine Translation” (2026), "
    "arXiv 2605.01229, abstract",
    "{least}–{most} % on end-of-sentence tokens, language tags and punctuation (NLLB-200 with "
    "600 million parameters).",
    {"least": 83, "most": 91},
)
BEST_LAYERS = Quote(
    _KOBAYASHI,
    "Reading position: best in layer {reading} of {layers} in all {networks} networks. Producing "
    "position: best in layer {producing} (layer {lowest} in one network).",
    {"reading": 2, "producing": 5, "lowest": 4, "layers": 6, "networks": "five"},
)
READING_ERROR = Quote(
    _KOBAYASHI,
    "Alignment error in the best layer {weights} % against {producing} % (mean of {networks} "
    "networks).",
    _ERRORS,
)
NORM_ERROR = Quote(
    _KOBAYASHI,
    "Alignment error {norms} % by norms against {weights} % by weights (best layer, position that "
    "reads the word, mean of {networks} networks).",
    _ERRORS,
)
SOURCE_SHARE = Quote(_SHARES, "The share of the source falls along the sentence.", {})
SOURCE_AT_EOS = Quote(_SHARES, "The share of the source drops at <eos>.", {})
FAITHFUL = Quote(
    "Nourbakhsh et al. 2026, arXiv 2603.11342, abstract",
    "A student network gains most from attention, value zeroing and layer gradient × activation; "
    "it gains less from saliency, integrated gradients, DeepLIFT, input × gradient and "
    "GradientShap (German, French and Arabic to English; BLEU of the student).",
    {},
)
FIXED_HEADS = Quote(
    "Raganato, Scherrer & Tiedemann 2020, arXiv 2002.10260, abstract",
    "Fixing all but {learned} head per encoder layer during training does not change the "
    "translation quality; where training data are scarce, it gains up to {gained} BLEU.",
    {"learned": "one", "gained": 3},
)
IN_EMBEDDINGS = Quote(
    _XU,
    "Translation “already happens progressively in encoder layers and even in the input "
    "embeddings”.",
    {},
)
LOWER_DECODER = Quote(
    _XU, "Some of the lower decoder layers “do not actually do that much decoding”.", {}
)
JACOBIAN_LENS = Quote(
    f"Gurnee et al. 2026, “Verbalizable Representations Form a Global Workspace”; {_SECOND_HAND}",
    "The Jacobian lens reads intermediate states of large language models better than the logit "
    "lens.",
    {},
)
HEADS_EXIST = Quote(_LIU, "They are present in all language models studied.", {})
HEADS_SPARSE = Quote(_LIU, "They are “only a small fraction of all attention heads”.", {})
HEADS_CAUSAL = Quote(
    _LIU,
    "Without them, translation declines sharply; without other heads drawn at random, little.",
    {},
)
HEADS_SAME = Quote(
    _LIU,
    "The set of these heads “shows strong consistency across different language pairs”.",
    {},
)
CRAZY_HEADS = Quote(
    "Wang et al. 2025, arXiv 2505.12969 (Calm-Whisper), abstract",
    "{heads} of the {of} heads of each decoder self-attention layer account for over {share} % of "
    "what Whisper-large-v3 makes up where nobody speaks.",
    {"heads": 3, "of": 20, "share": 75},
)
TRIGGERS = Quote(
    "Hackenbuchner, Tezcan & Daems 2026, arXiv 2512.08440, abstract",
    "Contrastive saliency tells which source words trigger the gender in the translation "
    "(gender-ambiguous English to German and Spanish); they overlap with those that people name.",
    {},
)
PENULTIMATE = Quote(
    "Garg et al. 2019, arXiv 1909.02074, “Jointly Learning to Align and Translate …”; "
    f"{_SECOND_HAND}",
    "The mean weights of the layer before the last align best.",
    {},
)
PROBABILITY = Quote(
    "Fomicheva et al. 2020, “Unsupervised Quality Estimation” (aclanthology.org/2020.tacl-1.35); "
    f"{_SECOND_HAND}",
    "A network's own probabilities correlate with people's judgements of its translations.",
    {},
)
SINKS = Quote(
    "Xiao et al. 2024, arXiv 2309.17453, “Efficient Streaming Language Models with Attention "
    "Sinks”, abstract",
    "Several initial tokens of large language models get “strong attention scores”, as a sink, "
    "even if they mean little.",
    {},
)
LESS_ATTENTION = Quote(
    _RAUQ,
    "Certain heads of large language models “reduce their focus on preceding tokens” when they "
    "generate something incorrect.",
    {},
)
RECURRENT = Quote(
    f"{_RAUQ}; the formula {_SECOND_HAND}",
    "Combined with probabilities, such heads detect wrong output better than other measures of "
    "uncertainty (question answering, summarisation and translation).",
    {},
)
EMPTY_SINKS = Quote(
    "Fesser et al. 2026, arXiv 2606.08105, “A Unifying View of Attention Sinks”, abstract",
    "Sinks that serve as no-ops “exhibit negligible value norms”; vision transformers have them, "
    "and sinks that broadcast.",
    {},
)
ABRUPT = Quote(
    "Lavie et al. 2026, arXiv 2606.12058, “Phase Transitions in Attention”, abstract",
    "Softmax attention learns to look at the token before in a first-order phase transition in the "
    "amount of training data (theory, and a network of {layers} layer). Attention patterns “have "
    "been observed empirically to emerge abruptly during training”.",
    {"layers": "one"},
)
