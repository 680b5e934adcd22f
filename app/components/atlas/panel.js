// Fills the panel of one head: its sentences, numbers, pairs, tokens, counterpart and quoted sentences.

import { buttonOf, element, headingCell, rowOf } from "../shared/dom.js";
import { percent, signed } from "../shared/numbers.js";
import { counted, fullName, fullText, hasIntervals, headId, headName, isMeasured, profileOf, rankOf, valueOf, valueText } from "./data.js";
import { mainDistance, rolesOf, whyNoRole } from "./roles.js";

/** @param {AtlasView} view */
export function fillPanel(view) {
  const { data, parts, chosen } = view;
  const n = chosen.head;
  parts.name.textContent = fullName(data, n);
  const sentences = data.stories[n];
  parts.story.replaceChildren(...sentences.map((text) => element("p", text.startsWith("Not measured") ? "quiet" : "", text)));
  const first = data.byKey[data.opened.defaults.measure];
  const { rank, count } = isMeasured(first, n) ? rankOf(data, first, n) : { rank: 0, count: 0 };
  const place = rank ? `Number ${rank} of ${count} by ${first.label[0].toLowerCase()}${first.label.slice(1)}` : "Not ranked";
  parts.why.textContent = `${place}${rank === 1 ? ", so it is shown first" : ""}. Click a cell above for another head.`;
  parts.spoken.textContent = `${fullName(data, n)}. ${sentences.join(" ")}`;
  fillTraining(view, n);
  fillNumbers(view, n);
  fillRolesAndDistance(view, n);
  fillPairs(view, n);
  fillAlignment(view, n);
  fillTokens(view, n);
  fillPartner(view, n);
  fillExamples(view);
}

/* Cards without content are hidden. */
function show(view, card, isShown) {
  view.root.querySelector(`[data-card=${card}]`).hidden = !isShown;
}

/* Link to the page that shows the head's maps during training. */
function fillTraining({ data, parts }, n) {
  const link = parts.training;
  link.hidden = !data.training;
  linkTo(link, "training", new URLSearchParams({ ...data.link, ...data.places[n] }));
  link.title = "This head's maps at several steps of the training run";
}

/* A link to another page, which Python opens: see onPanelClick. */
function linkTo(link, page, query) {
  link.href = `${window.location.pathname.replace(/[^/]*$/, "")}${page}?${query}`;
  Object.assign(link.dataset, { page, query: String(query) });
}

/** @param {AtlasView} view */
function fillNumbers({ data, parts }, n) {
  const shown = data.measures.filter((measure) => isMeasured(measure, n) && !/^(role|aer)-/.test(measure.key));
  parts.numbers.replaceChildren(
    ...shown.map((measure) => {
      const name = headingCell(measure.label, "row");
      name.title = measure.explanation;
      const value = element("td", "amount", fullText(measure, n));
      const { rank, count } = rankOf(data, measure, n);
      const ranked = measure.unit === "place" ? `of ${count}` : `${rank} of ${count}`;
      const remark = measure.no_effect?.has(n) ? "not distinguishable from 0" : ranked;
      const rest = element("td", "rest");
      rest.append(element("small", "", remark));
      return rowOf(name, value, rest);
    }),
  );
  parts["numbers-result"].textContent = counted(shown.length, "measure");
  const hasChanges = shown.some((measure) => measure.no_effect);
  const holm = hasChanges
    ? ` “Not distinguishable from 0”: the two-sided p-value, after Holm's correction for testing ${data.places.length} heads, is at least ${data.level}; where no p-value was computed, the 95 % interval includes 0.`
    : "";
  const brackets = shown.some(hasIntervals) ? "In brackets: 95 % bootstrap intervals over the sentences. " : "";
  const lowest = shown.some((measure) => measure.lowest_first) ? " (BLEU: the largest drop first)" : "";
  parts["numbers-note"].textContent = `${brackets}On the right: the rank by value, the largest first${lowest}.${holm}`;
}

/** @param {AtlasView} view */
function fillRolesAndDistance({ data, parts, root }, n) {
  const { kind } = data.places[n];
  const rows = rolesOf(data, n);
  /** @type {HTMLElement} */ (root.querySelector("[data-picture=roles]")).hidden = !rows.length;
  const labels = rows.filter(({ isLabel }) => isLabel);
  const words =
    "Bars: share of attention on keys of the role, over the rows that have such a key; thin lines: 95 % intervals. The upright line is the largest of three chance levels: with the head's rows shuffled, the highest in networks with random weights, and by the head's distances alone. A head is labelled with a role (bold; " +
    `${labels.length} of ${rows.length} here) only if at least ${percent(data.rows)} of its rows have a key of the role. The lower end of its interval must also be at least ${percent(data.floor)} and exceed each of these marks by more than ${Math.round(100 * data.margin)} percentage points.`;
  const defined = rows
    .filter(({ name }) => data.definitions[name])
    .map(({ name, title, rows: part }) => `${title} (in ${percent(part)} of rows): ${data.definitions[name]}`);
  parts["roles-note"].replaceChildren(words);
  if (defined.length) {
    const details = element("details");
    details.append(element("summary", "", "What each role means"), ...defined.map((text) => element("p", "", text)));
    parts["roles-note"].append(details);
  }
  const read = { encoder: "", decoder: " Itself: the token just fed in.", cross: " Fed: the target token that the decoder has just read. Produced: the one it writes next." }[kind];
  const longest = rows.reduce((a, b) => (b.score > a.score ? b : a), rows[0]);
  const above = labels.length && !longest.isLabel ? ` The longest bar is no role: ${whyNoRole(data, longest).full}.` : "";
  parts["roles-key"].textContent = `Bar: share of its attention, strong for a role. Upright line: the most that chance would give.${above}${read}`;
  parts["roles-title"].textContent = labels.length ? `Its role: ${labels[0].title}` : "No role beyond chance";
  parts.roles.setAttribute("aria-label", rows.map(({ title, score, shuffled, random, profile }) => `${title} ${percent(score)}, shuffled ${chanceText(shuffled)}, random networks ${chanceText(random)}${Number.isFinite(profile) ? `, distances only ${percent(profile)}` : ""}`).join("; "));
  const profile = profileOf(data, n);
  const from = kind === "cross" ? "the diagonal" : "the query";
  const top = mainDistance(data, n);
  const far = Math.abs(top) === data.distances[data.distances.length - 1] ? " or more" : "";
  const where = top === 0 ? `at ${from === "the query" ? "the query itself" : from}` : `${Math.abs(top)}${far} ${Math.abs(top) === 1 ? "token" : "tokens"} ${top < 0 ? "before" : "after"} ${from}`;
  const most = Math.max(...profile);
  const spread = most < 0.2 ? " Attention is spread widely." : "";
  const text = `The distance with the most attention gets ${percent(most)} of it: keys ${where}.${spread} The bars at both ends include all keys that are further away.`;
  const diagonal = kind === "cross" ? " The diagonal runs from the pair of first tokens to the pair of last tokens." : "";
  parts["distance-note"].textContent = `${text}${diagonal}`;
  parts["distance-title"].textContent = `${percent(most)} is ${where}`;
  parts.distance.setAttribute("aria-label", text);
}

const chanceText = (share) => (Number.isFinite(share) ? percent(share) : "not measured");

/** @param {AtlasView} view */
function fillPairs(view, n) {
  const { data, parts } = view;
  const pairs = data.pairs[n];
  show(view, "pairs", Boolean(pairs));
  if (!pairs) return;
  const list = (title, heads, more) => {
    if (!heads.length) return [];
    const items = element("ul", "jumps");
    items.append(
      ...heads.map(([head, value, low, high, digits]) => {
        const item = element("li");
        const button = buttonOf("jump", headName(data, head));
        button.dataset.head = head;
        item.append(button, element("span", "numbers", `${signed(value, digits)} nats per token (${signed(low, digits)} to ${signed(high, digits)})`));
        return item;
      }),
    );
    return [element("p", "", title), items, ...(more ? [element("p", "note", `and ${more} more`)] : [])];
  };
  const first = ([words, [head]]) => (head ? [`${words} ${headName(data, head[0])}`] : []);
  const found = [["covered for by", pairs.covers], ["relies on", pairs.needs]].flatMap(/** @type {any} */ (first));
  parts["pairs-result"].textContent = found.join(" \u00b7 ") || "none";
  const made = [
    ...list("Heads that cover for it: removing both costs more than the two single removals together", pairs.covers, pairs.more[0]),
    ...list("Heads without which it helps less or harms more: removing both costs less than the two single removals together", pairs.needs, pairs.more[1]),
  ];
  parts.pairs.replaceChildren(...(made.length ? made : [element("p", "", "No pair is listed: every 95 % interval includes 0.")]));
  parts["pairs-note"].textContent = `Change of the loss when both are removed, minus the changes when each is removed alone, on ${counted(data.samples.pairs, "sentence")} of the corpus. The 95 % intervals are not corrected for multiple testing. Of ${pairs.tested} pairs, about ${pairs.by_chance} would be listed by chance alone.`;
}

/** @param {AtlasView} view */
function fillAlignment(view, n) {
  const { data, parts } = view;
  const { kind } = data.places[n];
  const about = kind === "cross" ? data.alignment : null;
  show(view, "alignment", about !== null);
  if (!about) return;
  const at = n - data.starts.cross;
  const share = (value) => (value === null ? "" : percent(value));
  parts.alignment.replaceChildren(
    ...about.rows.map(({ reading, quantity, heads }) => {
      const [aer, low, high, precision, recall] = heads[at];
      return rowOf(
        element("th", "", reading.replace(/^the row that /, "").replace("target ", "")),
        element("th", "", quantity.replace(/^(attention|value) /, "")),
        element("td", "", aer === null ? "not measured" : `${share(aer)} (${share(low)} to ${share(high)})`),
        element("td", "rest", share(precision)),
        element("td", "rest", share(recall)),
      );
    }),
  );
  const errors = about.rows.map(({ heads }) => heads[at][0]).filter((aer) => aer !== null);
  const diagonal = Object.entries(about.nulls).map(([what, [aer]]) => `; ${what} in ${percent(aer)}`)[0] ?? "";
  parts["alignment-result"].textContent = errors.length ? `errs in ${percent(Math.min(...errors))}${diagonal}` : "";
  const nulls = Object.entries(about.nulls).map(([what, [aer]]) => `${what} ${percent(aer)}`);
  const { best } = about;
  const set = best
    ? ` On one half of the sentences, the best aligner by ${best.quantity} is ${best.heads.length === 1 ? `${best.heads[0]} alone` : `the mean of ${best.heads.join(", ")}`}, in ${best.reading}; on the other half its error rate is ${percent(best.aer[0])} (${percent(best.aer[1])} to ${percent(best.aer[2])}).`
    : "";
  const gold = data.origin.gold ? `, on ${counted(data.origin.gold_sentences, "sentence")} with manual alignments (${data.origin.gold_name})` : "";
  parts["alignment-note"].textContent = `Alignment error rate${gold}, lower is better; each target word is linked to the key with the largest attention weight or value norm. For comparison: ${nulls.join(", ") || "not measured"}.${set}`;
}

/** @param {AtlasView} view */
function fillTokens(view, n) {
  const { data, parts } = view;
  const tokens = data.tokens[n] ?? [];
  show(view, "tokens", tokens.length > 0);
  parts.tokens.replaceChildren(
    ...tokens.map(([text, change, count]) => {
      const name = headingCell(text, "row");
      const times = element("td", "rest");
      times.append(element("small", "", `seen ${count.toLocaleString("en")} times`));
      return rowOf(name, element("td", "amount", `${signed(change, 2)} nats`), times);
    }),
  );
  parts["tokens-result"].textContent = tokens.length ? `\u201c${tokens[0][0]}\u201d: ${signed(tokens[0][1], 2)} nats` : "";
  parts["tokens-note"].textContent = `The target tokens whose loss rises most when the head is zero-ablated, on average over their occurrences; only tokens seen at least ${data.least} times. No intervals were computed. Rare tokens are more likely to appear here by chance, and on other sentences the rises tend to be smaller.`;
}

/** @param {AtlasView} view */
function fillPartner(view, n) {
  const { data, parts } = view;
  const partner = data.partner?.[n] ?? -1;
  const measure = data.byKey.similarity;
  show(view, "partner", partner >= 0);
  if (partner < 0) return;
  const name = headName(data, partner);
  let place = element("b", "", name);
  if (data.counterpart) {
    place = element("a", "", name);
    place.href = `?${new URLSearchParams({ ...data.counterpart, head: headId(data, partner) })}`;
  }
  const share = measure && isMeasured(measure, n) ? [`, with which it shares ${fullText(measure, n)} of its attention`] : [];
  parts.partner.replaceChildren(`In ${data.origin.other || "the other network"}: `, place, ...share, ".");
  parts["partner-result"].textContent = `${name}${measure && isMeasured(measure, n) ? `, ${percent(valueOf(measure, n))} in common` : ""}`;
  parts["partner-note"].textContent = "The two networks were trained separately; their heads are matched one to one so that the total of the shared attention is as large as possible. " + unmatchedText(data, n);
}

/* Text about the overlap with unmatched heads, which the matching makes smaller than that with the partner. */
function unmatchedText(data, n) {
  const [value, low, high] = data.unmatched?.[n] ?? [null];
  if (value === null) return "The file does not record the overlap of unmatched heads, so this number cannot be compared with chance.";
  const interval = low === null ? "" : ` (${percent(low)} to ${percent(high)})`;
  return `With the other heads of that kind it shares ${percent(value)}${interval} on average. The matching selects large overlaps, so chance alone gives a share a little above this average. Only a share far above it shows that two heads are alike.`;
}

/** Indices of the quoted sentences, a list for each decile of the loss change (`strength`); the largest changes come first. */
function decilesOf({ decile, quoted, strength }, n) {
  if (!decile) return [];
  const found = Array.from({ length: 10 }, () => []);
  quoted.forEach((_, sentence) => {
    const at = decile[n * quoted.length + sentence];
    if (at < 10) found[at].push(sentence);
  });
  const size = (sentence) => strength[n * quoted.length + sentence];
  return found.map((sentences) => sentences.toSorted((a, b) => size(b) - size(a))).toReversed();
}

/** Query parameters that open a quoted sentence in the explorer, at a head and its cell. */
function sentenceQuery({ quoted, cell: cells, link, places }, n, sentence) {
  const [source, target] = quoted[sentence];
  const { kind, layer, head } = places[n];
  const from = 2 * (n * quoted.length + sentence);
  const [query, key] = cells.subarray(from, from + 2);
  const at = query >= 0 && key >= 0 ? { q: query, k: key } : {};
  return new URLSearchParams({ source, ...(target ? { target } : {}), ...link, kind, layer, head, ...at });
}

/** @param {AtlasView} view */
export function fillExamples(view) {
  const { data, parts, chosen, turns } = view;
  const n = chosen.head;
  const deciles = decilesOf(data, n);
  show(view, "examples", deciles.some((sentences) => sentences.length));
  parts["examples-result"].textContent = counted(data.quoted.length, "sentence");
  parts.examples.replaceChildren(
    ...deciles.flatMap((sentences, at) => {
      if (!sentences.length) return [];
      // The middle of the decile first: it is typical of the decile.
      const turn = ((turns.get(`${n} ${at}`) ?? 0) + Math.floor(sentences.length / 2)) % sentences.length;
      const sentence = sentences[turn];
      const [source, target] = data.quoted[sentence];
      const item = element("li");
      const which = element("span", "decile", `${isSingle(data) ? "change of the loss" : `decile ${at + 1} of 10`}: `);
      which.append(element("span", "numbers", signed(data.strength[n * data.quoted.length + sentence], 3)));
      const said = element("div", "said");
      const link = element("a", "", source);
      linkTo(link, "", sentenceQuery(data, n, sentence));
      link.title = "Open in the explorer, at this head and its cell";
      said.append(link, element("span", "", target));
      item.append(which, said);
      if (sentences.length > 1) {
        const another = buttonOf("another", `Another sentence (${sentences.length} in this decile)`);
        another.dataset.decile = at;
        item.append(another);
      }
      return [item];
    }),
  );
  const opensAt = data.places[n].kind === "encoder" ? "at the largest weight on another token" : "at the target token whose loss rises most";
  const empty = deciles.map((sentences, at) => (sentences.length ? 0 : at + 1)).filter(Boolean);
  const lacking = empty.length && !isSingle(data) ? ` None of the ${data.quoted.length} quoted sentences falls into ${empty.length === 1 ? "decile" : "deciles"} ${listed(empty)}.` : "";
  parts["examples-note"].textContent = `The numbers are the change of the sentence's loss when the head is zero-ablated, in nats per token${isSingle(data) ? "" : "; decile 1 is the tenth of the corpus with the largest changes"}. A click opens the sentence at this head, ${opensAt}.${lacking}`;
}

/* A single sentence has neither intervals nor deciles. */
const isSingle = ({ origin }) => origin.sentences < 2;

/* "2", "2 and 5", "2, 5 and 7". */
const listed = (items) => [items.slice(0, -1).join(", "), items.at(-1)].filter(String).join(" and ");

/** Where the numbers come from, and how to compute them again. @param {AtlasView} view */
export function fillOrigin({ data, parts }) {
  const { origin } = data;
  parts.headline.textContent = data.headline;
  parts["origin-result"].textContent = counted(origin.sentences, "sentence");
  parts.single.hidden = !isSingle(data);
  const count = (number) => number.toLocaleString("en");
  const skipped = origin.skipped ? `; ${counted(origin.skipped, "line")} ${origin.skipped === 1 ? "was" : "were"} skipped` : "";
  parts.origin.textContent =
    `${data.network} (weights ${origin.weights_sha256.slice(0, 8)}) on ${origin.corpus}: ${counted(origin.sentences, "sentence")}, ` +
    `${count(origin.source_tokens)} source and ${count(origin.target_tokens)} target tokens${skipped}.` +
    (origin.sources_sha256 ? ` SHA-256 of the lines: ${origin.sources_sha256.slice(0, 8)} and ${origin.references_sha256.slice(0, 8)}.` : "");
  parts.command.textContent = origin.command;
  parts.command.parentElement.hidden = !origin.command;
  parts.where.textContent =
    "This command writes all these numbers into one file, atlas.npz. With --json FILE, it also writes the numbers named heads[…] as JSON. " +
    "The CSV files name their arrays. In both files, heads count from 0: encoder first, then decoder and cross-attention.";
}

/** What the pictures show, in words. @param {AtlasView} view */
export function fillNotes({ data, parts, chosen }) {
  const measure = data.byKey[chosen.measure];
  const square = measure.no_effect ? ` An empty square marks the ${counted(measure.no_effect.size, "head")} (of ${data.places.length}) whose change is not distinguishable from 0.` : "";
  const unmeasured = data.places.filter((_, n) => !isMeasured(measure, n)).length;
  const grey = unmeasured ? ` Grey: the ${counted(unmeasured, "head")} without this measure.` : "";
  const bar = !hasIntervals(measure) ? "" : " The bar at the bottom of a cell is the 95 % interval on the same scale.";
  parts["heads-note"].textContent =
    `Rows are layers, columns are heads. Colour: ${measure.explanation}.${grey}${bar}${square} ` +
    "Grey bars: where the head looks on average, from 20 tokens before to 20 after the query (in cross-attention, before and after the diagonal), each scaled to its own peak.";
  const [x, y] = [data.byKey[chosen.x], data.byKey[chosen.y]];
  const names = [...new Set([x, y])].filter((each) => each !== measure);
  const rank = isMeasured(y, chosen.head) ? `${rankOf(data, y, chosen.head).rank} of ${rankOf(data, y, chosen.head).count}` : "not measured";
  parts["scatter-title"].textContent = `By ${y.label.toLowerCase()}: ${rank}`;
  parts["scatter-note"].textContent =
    `Each point is a head${[x, y].some(hasIntervals) ? ", with its 95 % intervals" : ""}.${names.map((each) => ` ${each.label}: ${each.explanation}.`).join("")} Changes are on square-root scales.`;
}

/** One line about the head under the pointer, else about the chosen one. @param {AtlasView} view */
export function fillReadout({ data, parts, chosen, hovered }) {
  const n = hovered ?? chosen.head;
  const shown = [...new Set([chosen.measure, chosen.x, chosen.y])].map((key) => data.byKey[key]);
  const said = (hovered === null ? shown.slice(0, 1) : shown).flatMap((measure) => [` \u00b7 ${measure.label}: `, element("b", "", fullText(measure, n))]);
  const roles = data.labels[n].length ? [` \u00b7 `, element("b", "", data.labels[n][0])] : [];
  parts.readout.replaceChildren(element("b", "", headName(data, n)), ...roles, ...said);
  return shown.map((measure) => valueText(measure, measure.values[3 * n], n)).join(" ");
}
