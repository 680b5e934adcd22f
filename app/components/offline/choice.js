// What the page translates, as a frozen value that a link stores: direction, text, search, target and edits. No DOM.

import { oneLine } from "../shared/single_line.js";

/**
 * @typedef {{title: string, text: string, hint: string, reference: string, view: object | null}} OfflineExample
 * @typedef {{direction: string, name: string, source: string, target: string, learned: string,
 *   precision: string, parameters: number, sha256: string, tour: TourStop[], plan: boolean,
 *   left_out: string[], certainty: Record<string, [number, string][]>, examples: OfflineExample[],
 *   pairs: [string, string, string][], spoken?: [string, string], languages?: Record<string, string>,
 *   note?: string}} OfflineModel  source, target: names of the
 *   languages; languages: their names by code, if the network has codes, and spoken: the usual pair; learned: what sentences the network was trained on, in words; sha256: of the weights
 *   as they are in the file; tour: see tour.js; plan: whether `tour` holds the stops of a plan for
 *   a class; left_out: a line for each stop that the page lacks; certainty: by search, see doubts.js
 * @typedef {object} Choice
 * @property {string} direction  such as de-en
 * @property {string} from  code of the source's language; "" for a network without codes
 * @property {string} to
 * @property {string} source  text to translate; "" for none
 * @property {string} target  given translation; "" for the network's own
 * @property {number} beam  hypotheses kept at each step; 1 is greedy search
 * @property {string} edits  text form of all edits
 */

export const BEAMS = { fewest: 1, usual: 5, most: 8 };

/** Name of a search. @param {number} beam */
export const searchName = (beam) => (beam === 1 ? "Greedy" : `Beam ${beam}`);

/** The languages of a choice, as the page names them. @param {OfflineModel} model @param {Choice} choice @returns {[string, string]} */
export const languagesOf = ({ source, target, languages }, { from, to }) => (languages ? [languages[from], languages[to]] : [source, target]);

/** @returns {OfflineModel} the model of a direction, else the first one */
export const modelOf = (models, direction) => models.find((model) => model.direction === direction) ?? models[0];

/**
 * Return the choice of a link; defaults replace invalid values. Links of the app say `search=greedy` instead of
 * `beam=1`.
 * @param {Record<string, string>} link
 * @param {OfflineModel[]} models
 * @returns {Readonly<Choice>}
 */
export function choiceOf(link, models) {
  const { direction, examples, languages = {}, spoken = ["", ""] } = modelOf(models, link.direction);
  const code = (name, usual) => (link[name] in languages ? link[name] : usual);
  const text = (name, usual = "") => oneLine(link[name] ?? usual).trim();
  return Object.freeze({
    direction,
    from: code("from_language", spoken[0]),
    to: code("to_language", spoken[1]),
    source: text("source", examples[0]?.text),
    target: text("target"),
    beam: beamOf(link),
    edits: link.edits ?? "",
  });
}

/** @param {Record<string, string>} link */
function beamOf({ beam, search }) {
  const given = Number(beam);
  if (/^\d$/.test(beam ?? "") && given >= BEAMS.fewest && given <= BEAMS.most) return given;
  return search === "greedy" ? BEAMS.fewest : BEAMS.usual;
}

/** Parameters of a choice; null for defaults, which a link leaves out. @param {Choice} choice */
export const linkOfChoice = ({ direction, from, to, source, target, beam, edits }) => ({
  direction,
  from_language: from || null,
  to_language: to || null,
  source,
  target: target || null,
  beam: beam === BEAMS.usual ? null : beam,
  search: null,
  edits: edits || null,
});

/**
 * The choice in the other direction: an example becomes its counterpart, another text its translation.
 * @param {Choice} choice
 * @param {OfflineModel[]} models
 * @param {string} direction
 * @param {{source: string, translation: string} | null} shown  the last translation, and the
 *   source text that it translates
 */
export function turned(choice, models, direction, shown) {
  if (direction === choice.direction) return choice;
  const from = modelOf(models, choice.direction), to = modelOf(models, direction);
  const [own, other] = to.spoken ?? ["", ""], codes = { from: own, to: other };
  if (to.source !== from.target) return { ...choice, ...codes, direction, source: to.source === from.source ? choice.source : (to.examples[0]?.text ?? ""), target: "", edits: "" };
  const example = from.examples.find(({ text }) => text === choice.source);
  const translated = shown?.source === choice.source ? shown.translation : choice.source;
  return { ...choice, ...codes, direction, source: example?.reference || translated, target: "", edits: "" };
}
