// The lesson on masks: what is masked in this sentence, and what the network does without a mask or without a word.

import { percent, signed } from "../shared/numbers.js";
import { displayTokens, tokenName, wordItems } from "../shared/tokens.js";
import { editSection } from "./edit_section.js";
import { choiceBox, fillChoice, formulaOf, lineOf, paintWords, sectionOf } from "./lesson_parts.js";
import { textsOf, verdictIn } from "./lesson_table.js";
import { compareProbabilities, countMasked, shareOnFuture } from "./passes.js";

/**
 * Build the lesson: its sections, each with a function that shows a pass.
 * @param {LessonTools} tools
 */
export function masksLesson(tools) {
  const say = textsOf(tools.tables.masks);
  return [maskedCells(say), withoutCausalMask(tools, say), withoutWord(tools, say)];
}

/** @param {Say} say */
function maskedCells(say) {
  const counted = lineOf();
  const formula = formulaOf(""), biased = lineOf();
  const section = sectionOf(say("cells.heading"), say("about"), say("cells.about"), formula, biased, counted);
  /** @param {Pass} pass */
  const show = (pass) => {
    const bias = pass.order === "-bias";
    formula.textContent = `Attention(Q, K, V) = softmax(QK\u1d40${pass.scaled ? " / \u221ad\u2096" : ""}${bias ? " + B" : ""} + M) V`;
    biased.textContent = bias ? say("bias") : "";
    const [decoder, encoder, cross] = /** @type {Kind[]} */ (["decoder", "encoder", "cross"]).map((kind) => countMasked(pass, kind));
    counted.textContent = say("cells.counted", {
      cells: decoder.cells,
      masked: decoder.masked,
      share: percent(decoder.masked / decoder.cells),
      encoder_masked: encoder.masked,
      encoder_cells: encoder.cells,
      cross_masked: cross.masked,
      cross_cells: cross.cells,
    });
  };
  return { section, show };
}

/** @param {LessonTools} tools @param {Say} say */
function withoutCausalMask(tools, say) {
  const said = lineOf();
  const { section, show: showEdited } = editSection(tools, say, "causal", "decoder", { below: [said] });
  /** @param {Pass} pass */
  const show = async (pass) => {
    const open = await showEdited(pass, "causal");
    if (open) paintWords(said, say("causal.measured", measuredLeak(tools, say, pass, open)));
  };
  return { section, show };
}

/** @param {LessonTools} tools @param {Say} say @param {Pass} masked @param {Pass} open */
function measuredLeak(tools, say, masked, open) {
  const { before, after, more, less } = compareProbabilities(masked, open);
  const gained = after - before;
  return {
    before: percent(before),
    after: percent(after),
    change: signed(gained, 3),
    count: open.probabilities.length,
    more,
    less,
    future: percent(shareOnFuture(open)),
    verdict: say(`causal.${verdictIn(tools.tables.masks.rules.causal, gained)}`),
  };
}

/** @param {LessonTools} tools @param {Say} say */
function withoutWord(tools, say) {
  const none = lineOf();
  /** @type {Pass} */
  let offered = null;
  const { box, list } = choiceBox(say("word.choice"), [], () => show(offered));
  const parts = { above: [box, none], below: [say("word.look")] };
  const { section, shown, show: showEdited } = editSection(tools, say, "word", "cross", parts);
  /** @param {Pass} pass */
  const show = async (pass) => {
    if (offered !== pass) offerWords(list, pass);
    offered = pass;
    const words = wordsOfSource(pass);
    none.textContent = words.length ? "" : say("word.none");
    for (const part of [box, shown]) part.hidden = !words.length;
    if (words.length) await showEdited(pass, words[Number(list.value)].members.map((token) => `hide.${token}`).join("~"));
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
