"""One-sentence explanations of technical terms, for `help=` texts."""

TERMS = {
    "token": "A token is what the network reads and writes: a word, a piece of one, or a "
    "punctuation mark. A rare word is split into several tokens.",
    "embedding": "An embedding is the vector of a token: one row of a learned table, selected by "
    "the token's id.",
    "<bos>": "<bos> (begin of sentence) is the token that starts the decoder's input; some "
    "networks have one in front of the source too.",
    "<eos>": "<eos> (end of sentence) is the token that ends a sentence; when the decoder writes "
    "it, the translation is complete.",
    "<unk>": "<unk> takes the place of a character that the vocabulary does not contain.",
    "logit": "A logit is the network's raw score for a token. The softmax turns all logits of a "
    "step into probabilities; adding 1 to a logit multiplies the token's odds by 2.7.",
    "softmax": "The softmax turns numbers into positive shares that sum to 1: e to the power of "
    "each number, divided by the sum of all of them.",
    "log-probability": "The natural logarithm of a probability: 0 for certain, −0.7 for 50 %, "
    "−2.3 for 10 %. The log-probabilities of tokens add up.",
    "nats": "Nats measure log-probability with the natural logarithm: −0.7 nats halve a "
    "probability, −2.3 nats divide it by ten.",
    "entropy": "Entropy in bits says how widely attention is spread: 0 bits when one token "
    "gets all of it, 3 bits when 8 tokens get equal shares.",
    "query": "A query is the token that a row of the map belongs to: it spreads its attention "
    "over the keys. The vector that a head computes for this row is also called the query.",
    "key": "A key is a token that queries look at: a column of the map. The vector that a head "
    "computes from it is also called the key.",
    "value": "The value is the vector that a key contributes: the output of a head is the sum of "
    "the values, each times its weight.",
    "weight": "An attention weight is the share of its attention that a query gives to a key; "
    "the weights of a row sum to 1.",
    "dot product": "The dot product of two vectors is the sum of the products of their numbers, "
    "dimension by dimension: large where both point the same way.",
    "d_k": "d_k is how many numbers a query and a key have. A sum of more products tends to be "
    "larger; dividing by √d_k makes up for that, so that the softmax does not give nearly all "
    "weight to one key.",
    "norm": "The length (norm) of a vector is the square root of the sum of its squared numbers.",
    "head": "A head computes one attention map. Each layer has several heads, which read the same "
    "tokens with matrices of their own.",
    "cross-attention": "In cross-attention the tokens being written look at the source sentence.",
    "residual stream": "The residual stream is a token's vector on its way through the layers: "
    "every head and feed-forward layer adds to it.",
    "ablation": "An ablation switches a part of the network off and measures what changes.",
    "bootstrap": "A bootstrap interval shows how much a number would vary with other sentences: it "
    "is computed again and again from sentences drawn at random from the corpus, and 95 % of the "
    "results lie inside.",
    "null": "A null is what a score would be by chance, for instance with each row's weights "
    "shuffled. A score says something only if it is clearly above.",
    "Shapley value": "A word's Shapley value is what it adds to the log-probability, averaged over "
    "all orders in which the source words can be revealed.",
    "Spearman": "Spearman's rank correlation compares two orders: 1 is the same order, 0 no "
    "relation, −1 the reverse.",
    "rollout": "Attention rollout multiplies the layers' mean maps, each averaged with the "
    "identity for the residual connection. This traces attention back to the input tokens (Abnar & "
    "Zuidema 2020).",
    "value norms": "A value norm is the length of what a key adds to the head's output: its weight "
    "times the length of its projected value. A large weight on a short vector has little effect "
    "(Kobayashi et al. 2020).",
    "logit lens": "The logit lens applies the output layer to the state after each layer, to see "
    "which token the network would write if it stopped there.",
    "beam search": "Beam search keeps the best few unfinished translations at each step, extends "
    "all of them, and keeps the best again.",
    "length penalty": "Every further token can only lower the log-probability. So that longer "
    "translations can compete, the log-probability is divided by ((5 + length) / 6)^α, the length "
    "penalty.",
    "score": "The score of a translation is its log-probability divided by the length penalty. The "
    "beam compares finished translations by it.",
    "forced prefix": "A forced prefix fixes the first tokens of the translation; the search "
    "continues from there.",
    "teacher-forced": "In a teacher-forced pass the decoder is fed a given translation instead of "
    "its own choices, so every step is computed at once.",
    "mask": "A mask forbids cells of a map: a masked key gets weight 0, whatever its score.",
    "word alignment": "A word alignment links each word to the words that it translates. The links "
    "i-j in Pharaoh format are source word i and target word j, both counted from 0.",
    "alignment error rate": "The alignment error rate is 0 % if the links agree with manual ones: "
    "1 − (|A∩S| + |A∩P|) / (|A| + |S|), with links A, sure manual links S, and all manual links P "
    "(Och & Ney 2003).",
    "BLEU": "BLEU compares translations with a reference by shared word sequences, from 0 to 100.",
}
"""Explanations by term."""


def meaning(*terms: str) -> str:
    """Return the explanations of some terms, one paragraph each, for `help=`.

    Raises KeyError for an unknown term.
    """
    return "\n\n".join(TERMS[term].replace("<", "\\<") for term in terms)
