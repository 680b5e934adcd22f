// Fills the panel of a node: its path, its score as a sum, and alternative tokens.

import { barOf, buttonOf, element } from "../shared/dom.js";
import { chance, fixed } from "../shared/numbers.js";
import { idsBefore, pathTo, wordsOfStatus } from "./nodes.js";

function formOf(token) {
  const form = element("bdi", "form");
  const kind = token.special ? "special" : token.unknown ? "unknown" : "";
  if (kind) form.append(element("span", kind, token.label));
  else form.textContent = token.label;
  return form;
}

/** @param {TreeView} view */
export function fillPanel(view, index) {
  const { data, parts } = view;
  const node = data.nodes[index];
  const isRoot = node.parent === null;
  parts.title.replaceChildren(
    data.tokens[node.id].label,
    element("small", "numbers", isRoot ? "fed in first" : `step ${node.step}, rank ${node.rank + 1}`),
  );
  parts.status.textContent = wordsOfStatus(data, node);
  fillTerms(view, index);
  fillArithmetic(view, node);
  fillAlternatives(view, node);
  const stop = node.ended ? "This path has ended" : isRoot ? "Search from the start" : "Continue from here";
  parts.continue.textContent = stop;
  parts.continue.disabled = node.ended;
}

function fillTerms({ data, parts }, index) {
  const path = pathTo(data, index);
  parts.terms.replaceChildren(
    ...path.map((at, place) => {
      const node = data.nodes[at];
      const term = element("span", at === index ? "term last" : "term");
      const sign = place === 0 ? "" : "+ ";
      term.append(formOf(data.tokens[node.id]), element("span", "log", `${sign}(${fixed(node.log_prob, 3)})`));
      return term;
    }),
  );
  parts.terms.scrollTop = parts.terms.scrollHeight;
}

function fillArithmetic({ data, parts }, node) {
  const { alpha } = data;
  const rows = [];
  const row = (name, how, value, className = "") => {
    const explained = element("dd", "how");
    explained.append(...how);
    const term = element("dt", "", name);
    term.title = data.meanings[name];
    rows.push(term, explained, element("dd", `value ${className}`, value));
  };
  if (node.parent !== null) {
    row("log-probability", [node.step === 1 ? "one token" : `sum of ${node.step} tokens`], fixed(node.total, 3));
    if (!data.hypotheses.length) {
      // The scores are hidden with the winner.
    } else if (alpha === 0) {
      row("score", ["greedy: no length penalty"], fixed(node.score, 3), "total");
    } else {
      const divisor = ((5 + node.step) / 6) ** alpha;
      row("length penalty", [`((5 + ${node.step}) / 6)`, element("sup", "", alpha)], divisor.toFixed(3));
      const how = `${fixed(node.total, 3)} / ${divisor.toFixed(3)}`;
      row("score", [node.ended ? how : `${how}, if it ended here`], fixed(node.score, 3), "total");
    }
  }
  parts.arithmetic.replaceChildren(...rows);
}

/** @param {TreeView} view @param {TreeNode} node */
function fillAlternatives(view, node) {
  const { data, parts } = view;
  const parent = node.parent === null ? null : data.nodes[node.parent];
  parts.instead.textContent = "Most probable here: choose to force";
  const options = (parent ?? node).next;
  const path = idsBefore(data, data.nodes.indexOf(node));
  parts.alternatives.replaceChildren(
    ...options.map(([id, logProb]) => {
      const probability = Math.exp(logProb);
      const button = buttonOf("alternative");
      button.disabled = parent !== null && id === node.id;
      button.append(formOf(data.tokens[id]), element("span", "share", chance(probability)), barOf("bar", probability));
      button.dataset.force = JSON.stringify([...path, id]);
      return button;
    }),
  );
}

/** While a question below asks which one wins, the list is an empty line: its answer does not move it. @param {TreeView} view */
export function fillResults(view) {
  const { data, parts } = view;
  const count = data.hypotheses.length;
  parts["all-results"].hidden = !count;
  if (!count) parts["all-results"].open = false;
  parts["results-title"].textContent = count === 1 ? "The result" : `The ${count} finished translations, best score first`;
  parts.results.replaceChildren(
    ...data.hypotheses.map(({ text, end, log_prob, score }, place) => {
      const item = element("li");
      const button = buttonOf(place ? "result" : "result first");
      const sum = element("span", "sum");
      const tokens = data.nodes[end].step;
      const penalty = ((5 + tokens) / 6) ** data.alpha;
      const how = data.alpha === 0 ? `${tokens} tokens: log-probability ` : `log-probability ${fixed(log_prob, 3)} / ${penalty.toFixed(3)} (${tokens} tokens) = `;
      sum.append(how, element("b", "", fixed(score, 3)));
      button.append(element("span", "place", place + 1), element("bdi", "text", text), sum);
      button.dataset.node = end;
      item.append(button);
      return item;
    }),
  );
}
