// Says in one sentence, and a smaller second line, what the pictures show at the place looked at.

const NO_BREAK_DOT = "\u2002\u00b7\u2002";
const percent = (share) => `${Math.round(share * 100)}\u00a0%`;
const headName = ({ data, layer, head }) =>
  head < data.heads ? `head ${head + 1} of layer ${layer + 1}` : `the mean of layer ${layer + 1}\u2019s heads`;

/* With one byte a weight, two places are what the data holds; with two bytes, four. */
function exactWeight(explorer, weight) {
  return explorer.data.levels > 255 ? `exactly ${weight.toFixed(4)}` : `${weight.toFixed(3)} \u00b1 0.004`;
}

function weightChip(explorer, weight) {
  const chip = element("span", "weight numbers", weight.toFixed(2));
  const step = rampStep(weight);
  chip.style.background = explorer.theme.ramp.css[step];
  chip.style.color = explorer.theme.ramp.ink[step];
  return chip;
}

const byTouch = window.matchMedia("(pointer: coarse)").matches;

/* Each case returns the first line as nodes and strings, the second as a list of short statements. */
function describe(explorer) {
  const { preview } = explorer;
  const focus = focusOf(explorer);
  if (preview.note) return describeUnseen(explorer, preview.note);
  const map = currentMap(explorer);
  if (focus.query !== null && focus.key !== null) {
    const closed = isMasked(map, focus.query, focus.key);
    return (closed ? describeMasked : describeCell)(explorer, map, focus.query, focus.key);
  }
  if (focus.query !== null) return describeRow(explorer, map, focus.query);
  if (focus.key !== null) return describeColumn(explorer, map, focus.key);
  const peak = weightChip(explorer, measure(map).peak);
  return {
    first: [`On average, ${headName(explorer)} puts `, peak, " of a row on a single piece"],
    second: [
      byTouch
        ? "Tap a word or a cell to read one weight; tap again to let go."
        : "Point at a word or a cell to read one weight; click to keep it.",
    ],
  };
}

function describeUnseen({ data, kind }, note) {
  const { sourceLanguage: source, targetLanguage: target } = data;
  if (note === "target") {
    return {
      first: [`The encoder looks only at ${source} pieces: it never sees the translation.`],
      second: ["Choose Cross to see the two sentences linked."],
    };
  }
  if (note === "source") {
    return {
      first: [`Decoder self-attention looks only at ${target} pieces; ${source} reaches it through cross-attention.`],
      second: ["Choose Cross to see the two sentences linked."],
    };
  }
  const name = tokenName(data.sides.target[0]);
  return {
    first: [bold(name), " is fed in to start the sentence: no step produces it, so it has no row here."],
    second: ["Point at a later piece to see where the decoder looked while producing it."],
  };
}

const bold = (text) => element("b", "", text);
const verb = (map) => (map.kind === "encoder" ? "reading" : "producing");

function describeMasked(_explorer, map, query, key) {
  const start = [`While ${verb(map)} `, bold(tokenName(map.rows[query])), ", ", bold(tokenName(map.columns[key]))];
  const notWritten = map.kind === "decoder" && key > query;
  return {
    first: [...start, notWritten ? " is masked: it has not been written yet." : " is masked: this place is closed."],
    second: [
      `The ${notWritten ? "causal " : ""}mask closes this cell: its weight is exactly 0 by rule, not by choice.`,
      ...unknownNote(map, query, key),
    ],
  };
}

function describeCell(explorer, map, query, key) {
  const weight = weightAt(map, query, key);
  const ranked = rankedKeys(map, query);
  const second = [
    exactWeight(explorer, weight),
    `number ${ranked.indexOf(key) + 1} of ${ranked.length} in its row`,
    `row spread ${measure(map).spread[query].toFixed(1)} bits`,
  ];
  if (map.kind !== "encoder") {
    const fed = tokenName(explorer.data.sides.fed[query]);
    second.push(`row ${query + 1}: ${fed} was fed in, ${tokenName(map.rows[query])} came out`);
  }
  return {
    first: [
      `While ${verb(map)} `,
      bold(tokenName(map.rows[query])),
      `, ${headName(explorer)} gives `,
      weightChip(explorer, weight),
      " to ",
      bold(tokenName(map.columns[key])),
    ],
    // The line has room for four statements; that the model never saw the word comes before its rank.
    second: [...unknownNote(map, query, key), ...second].slice(0, 4),
  };
}

function describeRow(explorer, map, query) {
  const [top, ...rest] = rankedKeys(map, query);
  if (top === undefined) return { first: ["Every cell of this row is masked."], second: [] };
  const nameAndWeight = (key) => `${tokenName(map.columns[key])} ${weightAt(map, query, key).toFixed(2)}`;
  const others = rest.slice(0, 4).map(nameAndWeight);
  return {
    first: [
      `While ${verb(map)} `,
      bold(tokenName(map.rows[query])),
      `, ${headName(explorer)} looks most at `,
      bold(tokenName(map.columns[top])),
      " ",
      weightChip(explorer, weightAt(map, query, top)),
    ],
    second: [
      ...unknownNote(map, query, null),
      ...(map.kind === "encoder" ? [] : [`written with probability ${map.rows[query].probability.toFixed(2)}`]),
      others.length ? `then ${others.join(", ")}` : "every other piece is still masked",
      `row spread ${measure(map).spread[query].toFixed(1)} bits`,
    ],
  };
}

function describeColumn(explorer, map, key) {
  const [top, ...rest] = rankedQueries(map, key);
  if (top === undefined) return { first: ["Every cell of this column is masked."], second: [] };
  const nameAndWeight = (query) => `${tokenName(map.rows[query])} ${weightAt(map, query, key).toFixed(2)}`;
  const others = rest.slice(0, 3).map(nameAndWeight);
  return {
    first: [
      bold(tokenName(map.columns[key])),
      ` is looked at most while ${verb(map)} `,
      bold(tokenName(map.rows[top])),
      " ",
      weightChip(explorer, weightAt(map, top, key)),
    ],
    second: [
      ...unknownNote(map, null, key),
      ...(others.length ? [`then ${others.join(", ")}`] : []),
      `it receives ${percent(measure(map).received[key])} of everything ${headName(explorer)} gives`,
    ],
  };
}

function unknownNote(map, query, key) {
  const shown = [query === null ? null : map.rows[query], key === null ? null : map.columns[key]];
  const unknown = shown.find((token) => token?.unknown);
  return unknown ? [`${tokenName(unknown)} is not in the vocabulary: the model sees <unk>`] : [];
}

function paintReadout(explorer) {
  const { parts } = explorer;
  const { first, second } = describe(explorer);
  parts["readout-first"].replaceChildren(...first);
  parts["readout-second"].textContent = second.join(NO_BREAK_DOT);
  // The lines are cut at the edge; the whole text stays within reach.
  parts["readout-second"].title = parts["readout-second"].textContent;
  parts["let-go"].hidden = !isKept(explorer);
}
