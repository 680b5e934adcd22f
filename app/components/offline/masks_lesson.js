// The lesson on masks: what is masked in this sentence, and what the network does without a mask or without a word.

import { percent, signed } from "../shared/numbers.js";
import { displayTokens, tokenName, wordItems } from "../shared/tokens.js";
import { choiceBox, fillChoice, formulaOf, lineOf, mapRowOf, paintTexts, probabilityTable, sectionOf } from "./lesson_parts.js";
import { compareProbabilities, countMasked, rowOfPasses, shareOnFuture } from "./passes.js";

/* The text calls a change of the mean probability up to this "next to nothing". */
const NEXT_TO_NOTHING = 0.005;

/**
 * Build the lesson: its sections, each with a function that shows a pass.
 * @param {LessonTools} tools
 */
export const masksLesson = (tools) => [maskedCells(), withoutCausalMask(tools), withoutWord(tools)];

function maskedCells() {
  const counted = lineOf();
  const section = sectionOf(
    "What is masked",
    "Without a mask, every query may attend to every key. A mask M forbids some cells: those of padding, which is not " +
      "part of the sentence, and in the decoder those of tokens that are written later. A forbidden score becomes \u2212\u221e, so its weight is exactly 0.",
    formulaOf("Attention(Q, K, V) = softmax(QK\u1d40 / \u221ad\u2096 + M) V"),
    counted,
  );
  /** @param {Pass} pass */
  const show = (pass) => {
    const [decoder, encoder, cross] = /** @type {Kind[]} */ (["decoder", "encoder", "cross"]).map((kind) => countMasked(pass, kind));
    counted.textContent =
      `In this sentence the decoder's self-attention has ${decoder.cells} cells, of which ${decoder.masked} are masked ` +
      `(${percent(decoder.masked / decoder.cells)}). The encoder masks ${encoder.masked} of ${encoder.cells} cells, and the ` +
      `cross-attention ${cross.masked} of ${cross.cells}: only a batch needs padding, and this is a single sentence.`;
  };
  return { section, show };
}

/** @param {LessonTools} tools */
function withoutCausalMask(tools) {
  const said = lineOf();
  const names = /** @type {[string, string]} */ (["with the causal mask", "without it"]);
  const { table, paint } = probabilityTable(names);
  const row = mapRowOf(tools, "causal");
  const section = sectionOf(
    "What if there were no causal mask?",
    "In a teacher-forced pass the whole target is fed in at once, and each row has to predict the token that follows the " +
      "one it is fed. Without the causal mask every row but the last can look at that token: the answer is in the input, one " +
      "column to the right.",
    table,
    said,
    row.place,
  );
  /** @param {Pass} pass */
  const show = async (pass) => {
    const { pass: open } = await tools.edited("causal");
    paint(pass, open);
    said.textContent = leakInWords(pass, open);
    row.show(rowOfPasses("decoder", [pass, open], [
      { name: "With the mask", short: "with", note: "as trained" },
      { name: "Without the mask", short: "without", note: "every row may look ahead" },
    ]));
  };
  return { section, show };
}

/** @param {Pass} masked @param {Pass} open */
function leakInWords(masked, open) {
  const { before, after, more, less } = compareProbabilities(masked, open);
  const gained = after - before;
  const verdict =
    gained < -NEXT_TO_NOTHING
      ? "On average, future tokens are noise to this network: it was trained with the mask, so it could not learn to use them."
      : gained <= NEXT_TO_NOTHING
        ? "On the whole, seeing future tokens changes next to nothing."
        : "On the whole, the answer leaked into the rows that should predict it.";
  return (
    `Mean probability of the next token of the target: from ${percent(before)} to ${percent(after)} (change ${signed(gained, 3)}); of ` +
    `${open.probabilities.length} tokens, ${more} became more probable and ${less} less. In the rows that have future ` +
    `tokens, ${percent(shareOnFuture(open))} of the decoder's self-attention now goes to them. ${verdict}`
  );
}

/** @param {LessonTools} tools */
function withoutWord(tools) {
  const texts = lineOf("texts");
  const none = lineOf();
  const { table, paint } = probabilityTable(["with the word", "without it"]);
  const row = mapRowOf(tools, "hidden");
  /** @type {Pass} */
  let shown = null;
  const { box, list } = choiceBox("Word to mask away", [], () => show(shown));
  const section = sectionOf(
    "What if one word were masked away?",
    "A mask can hide any key. Choose a word or a punctuation mark: its tokens are masked for every query in the " +
      "encoder and in cross-attention, and the sentence is translated again.",
    box,
    none,
    texts,
    table,
    "If the probability of a token changes, that token depended on the hidden word. Where a probability hardly changes, the rest of the " +
      "sentence and the tokens written so far are enough.",
    row.place,
  );
  /** @param {Pass} pass */
  const show = async (pass) => {
    if (shown !== pass) offerWords(list, pass);
    shown = pass;
    const words = wordsOfSource(pass);
    none.textContent = words.length ? "" : "This sentence has no word to hide.";
    for (const part of [box, texts, table, row.place]) part.hidden = !words.length;
    if (!words.length) return;
    const { members } = words[Number(list.value)];
    const { pass: hidden, again } = await tools.edited(members.map((token) => `hide.${token}`).join("~"));
    if (shown !== pass) return;
    paintTexts(texts, [["With the word", pass.translation], ["Without it", again]]);
    paint(pass, hidden);
    row.show(rowOfPasses("cross", [pass, hidden], [
      { name: "With the word", short: "with", note: "as trained" },
      { name: "Without the word", short: "without", note: "its column is masked" },
    ]));
  };
  return { section, show };
}

/* Words of the source, each with its tokens' places, without special tokens. @param {Pass} pass */
const wordsOfSource = ({ source }) => wordItems(displayTokens(source, 1)).filter(({ special }) => !special);

/* Suggest the second-to-last word, not counting punctuation: mostly a noun or a verb. */
function offerWords(list, pass) {
  const words = wordsOfSource(pass);
  const spoken = words.flatMap(({ punctuation }, place) => (punctuation ? [] : [place]));
  fillChoice(list, words.map((word, place) => [String(place), tokenName(word)]), String(spoken.at(-2) ?? spoken[0] ?? 0));
}
