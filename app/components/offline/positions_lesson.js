// The lesson on positions: the encodings of this sentence, their dot products, and their edits.

import { scientific } from "../shared/numbers.js";
import { displayTokens, tokenName } from "../shared/tokens.js";
import { choiceBox, formulaOf, lineOf, mapRowOf, paintTexts, probabilityTable, sectionOf } from "./lesson_parts.js";
import { rowOfMatrix, rowOfPasses } from "./passes.js";
import { positionTable } from "./position_table.js";

/* Changes of the positions: name, formula, and `edit`, the text form after `positions.SIDE.` for a side of `length` tokens. */
const CHANGES = {
  off: { name: "Off", edit: () => "scale-0", formula: "x\u209a = \u221ad E(w\u209a)" },
  shuffled: { name: "Shuffled", edit: (length) => `order-${shuffled(length).join("-")}`, formula: "x\u209a = \u221ad E(w\u209a) + PE(\u03c0(p))" },
  shifted: { name: "Shifted by 5", edit: () => "shift-5", formula: "x\u209a = \u221ad E(w\u209a) + PE(p + 5)" },
  doubled: { name: "Doubled", edit: () => "scale-2", formula: "x\u209a = \u221ad E(w\u209a) + 2 PE(p)" },
  stretched: { name: "Stretched", edit: () => "stretch-2", formula: "x\u209a = \u221ad E(w\u209a) + PE(2p)" },
};

const SIDES = { both: "Both", source: "Source", target: "Target" };

/**
 * Build the lesson: its sections, each with a function that shows a pass.
 * @param {LessonTools} tools
 */
export const positionsLesson = (tools) => [encodings(), alikeness(tools), withoutPositions(tools)];

function encodings() {
  const { figure, paint } = positionTable();
  const look = lineOf();
  const formula = formulaOf("PE(pos, 2i) = sin(pos / 10000^(2i/d)), PE(pos, 2i + 1) = cos(pos / 10000^(2i/d))");
  const section = sectionOf(
    "What is added to each token",
    "The network reads all tokens at once. So that it knows their order, a vector for the token\u2019s position, a row of this table, is added to each embedding.",
    figure,
    look,
    formula,
  );
  /** @param {Pass} pass */
  const show = ({ source, positions }) => {
    const sinusoidal = isSinusoidal(positions, source.length);
    paint(displayTokens(source, 1).map(tokenName), positions, sinusoidal);
    formula.hidden = !sinusoidal;
    look.textContent = sinusoidal
      ? "Look from left to right: on the left, neighbouring rows differ strongly; on the right, a column hardly changes " +
        "over the whole sentence. Short waves tell neighbours apart; waves somewhat longer than the sentence tell its beginning " +
        "from its end; the longest would do so only in a far longer text."
      : "This network has learned its positions. Look for rows that are alike: positions that it hardly tells apart.";
  };
  return { section, show };
}

/** @param {LessonTools} tools */
function alikeness(tools) {
  const row = mapRowOf(tools, "products");
  const said = lineOf();
  const section = sectionOf(
    "How alike two positions are",
    "The dot product of two rows measures how alike two positions are. Attention compares tokens by dot products, so it can use this.",
    row.place,
    said,
  );
  /** @param {Pass} pass */
  const show = ({ source, positions, languages }) => {
    const count = source.length;
    const values = dotProducts(positions, count);
    const limit = values.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
    const named = {
      site: "Positions",
      name: "PE(p) \u00b7 PE(q)",
      short: "product",
      word: "product",
      note: "row p, column q",
      titles: { query: `p: ${languages.source} token`, key: `q: ${languages.source} token` },
    };
    row.show(rowOfMatrix(source, values, named, limit));
    const spread = spreadByDistance(values, count);
    said.textContent =
      `Pairs of positions at the same distance have products that differ by at most ${scientific(spread)}` +
      (spread < 1e-3 * limit ? ": the product depends on the distance alone." : ", so the product depends on the positions themselves.");
  };
  return { section, show };
}

/** @param {LessonTools} tools */
function withoutPositions(tools) {
  const texts = lineOf("texts");
  const formula = formulaOf("");
  const look = lineOf();
  const { table, paint } = probabilityTable(["as trained", "edited"]);
  const row = mapRowOf(tools, "positions");
  /** @type {Pass} */
  let shown = null;
  const again = () => show(shown);
  const change = choiceBox("Positions", Object.entries(CHANGES).map(([value, { name }]) => [value, name]), again);
  const side = choiceBox("Side", Object.entries(SIDES), again);
  const section = sectionOf(
    "What if the positions were removed or shuffled?",
    "The words stay the same. Only their positional encodings change. The sentence is translated again.",
    change.box,
    side.box,
    formula,
    texts,
    table,
    "A token whose probability changes, up or down, depended on the original positions.",
    row.place,
    look,
  );
  /** @param {Pass} pass */
  const show = async (pass) => {
    shown = pass;
    const chosen = CHANGES[change.list.value];
    const sides = side.list.value === "both" ? ["source", "target"] : [side.list.value];
    const lengths = { source: pass.source.length, target: pass.targetIn.length };
    const edits = sides.map((one) => `positions.${one}.${chosen.edit(lengths[one])}`).join("~");
    const { pass: edited, again: translation } = await tools.edited(edits);
    if (shown !== pass) return;
    formula.textContent = chosen.formula;
    paintTexts(texts, [["As trained", pass.translation], ["Edited", translation]]);
    paint(pass, edited);
    row.show(rowOfPasses("encoder", [pass, edited], [
      { name: "As trained", short: "as trained", note: "positions as trained" },
      { name: "Edited", short: "edited", note: "the same words" },
    ]));
    look.textContent = sides.includes("source")
      ? "Compare diagonals and columns: does a head that looks at neighbours lose its diagonal, and does one that looks at a " +
        "certain token keep its column?"
      : "Only the target's positions are edited, and the encoder does not see them.";
  };
  return { section, show };
}

/**
 * A fixed order of `length` positions that separates neighbours: the odd positions, then the even
 * ones.
 * @param {number} length
 */
function shuffled(length) {
  const odd = [...Array(length).keys()].filter((place) => place % 2);
  const even = [...Array(length).keys()].filter((place) => place % 2 === 0);
  return [...odd, ...even];
}

/**
 * Dot products of all pairs of rows, [count, count], summed in 64 bits.
 * @param {Float32Array} rows  [count, width]
 */
function dotProducts(rows, count) {
  const width = rows.length / count;
  return Float32Array.from({ length: count * count }, (_, pair) => {
    const [one, other] = [Math.floor(pair / count) * width, (pair % count) * width];
    let sum = 0;
    for (let at = 0; at < width; at++) sum += rows[one + at] * rows[other + at];
    return sum;
  });
}

/** The largest difference between products of pairs at the same distance. @param {Float32Array} products */
function spreadByDistance(products, count) {
  let most = 0;
  for (let distance = 0; distance < count; distance++) {
    const same = [];
    for (let place = 0; place + distance < count; place++) same.push(products[place * count + place + distance]);
    most = Math.max(most, Math.max(...same) - Math.min(...same));
  }
  return most;
}

/** Whether rows are those of the paper's formula (Vaswani et al. 2017, §3.5). @param {Float32Array} rows */
function isSinusoidal(rows, count) {
  const width = rows.length / count;
  return rows.every((value, cell) => {
    const [place, dimension] = [Math.floor(cell / width), cell % width];
    const angle = place / 10_000 ** ((dimension - (dimension % 2)) / width);
    return Math.abs(value - (dimension % 2 ? Math.cos(angle) : Math.sin(angle))) < 1e-4;
  });
}
