// Fills the panel beside the tree: a node's path, its score as a sum, and what could have stood in its place.

function element(tag, className, text) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

/* The nodes from the first piece to this one. */
function pathTo(data, index) {
  const path = [];
  for (let at = index; data.nodes[at].parent !== null; at = data.nodes[at].parent) path.unshift(at);
  return path;
}

function formOf(token) {
  const form = element("bdi", "form");
  const kind = token.special ? "special" : token.unknown ? "unknown" : "";
  if (kind) form.append(element("span", kind, token.label));
  else form.textContent = token.label;
  return form;
}

function nameOf(data, node) {
  const { label } = data.tokens[node.id];
  if (node.parent === null) return `${label}, fed in first`;
  const sums = `log-probability ${signed(node.log_prob, 2)}, sum ${signed(node.total, 2)}`;
  return `${isolated(label)}, step ${node.step}, ${sums}, ${wordsOfFate(data, node)}`;
}

/* What became of a hypothesis, and why. */
function wordsOfFate(data, node) {
  const { beam } = data;
  const ended = node.ended ? "It ended here" : "";
  const best = beam === 1 ? "another piece was likelier" : `${beam} others did better in this step`;
  const forced = node.forced ? "Forced, whatever its probability. " : "";
  switch (node.fate) {
    case "finished":
      return `${forced}Finished: ${node.place === 1 ? "the winner" : `place ${node.place}`}.`;
    case "overtaken":
      return `${ended}, and ${beam} others ended with a better score.`;
    case "left":
      return "Still open when the search was settled: the best that had ended could not be beaten any more.";
    case "pruned":
      return `${ended ? `${ended} and was pruned` : "Pruned"}: ${best}.`;
    default:
      if (node.parent === null) return "Every hypothesis begins here.";
      if (node.winner) return `${forced}On the winner's path.`;
      return `${forced}${node.childless ? "Kept for a step; none of its continuations was." : "It went on."}`;
  }
}

function fillPanel(view, index) {
  const { data, parts } = view;
  const node = data.nodes[index];
  const isRoot = node.parent === null;
  parts.title.replaceChildren(
    data.tokens[node.id].label,
    element("small", "numbers", isRoot ? "fed in first" : `step ${node.step}, rank ${node.rank + 1}`),
  );
  parts.fate.textContent = wordsOfFate(data, node);
  fillTerms(view, index);
  fillArithmetic(view, node);
  fillAlternatives(view, node);
  const stop = node.ended ? "It has ended" : isRoot ? "Search from the start" : "Continue from here";
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
      term.append(formOf(data.tokens[node.id]), element("span", "log", `${sign}(${signed(node.log_prob, 4)})`));
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
    rows.push(element("dt", "", name), explained, element("dd", `value ${className}`, value));
  };
  if (node.parent !== null) {
    row("log P", [node.step === 1 ? "one piece" : `the sum of ${node.step} pieces`], signed(node.total, 4));
    if (alpha === 0) {
      row("score", ["greedy compares no lengths: score = log P"], signed(node.score, 4), "total");
    } else {
      const divisor = ((5 + node.step) / 6) ** alpha;
      row("penalty", [`((5 + ${node.step}) / 6)`, element("sup", "", alpha)], divisor.toFixed(4));
      const how = `${signed(node.total, 4)} / ${divisor.toFixed(4)}`;
      row("score", [node.ended ? how : `${how}, if it ended here`], signed(node.score, 4), "total");
    }
  }
  parts.arithmetic.replaceChildren(...rows);
}

function fillAlternatives(view, node) {
  const { data, parts } = view;
  const parent = node.parent === null ? null : data.nodes[node.parent];
  parts.instead.textContent = `Likeliest at step ${Math.max(1, node.step)} of this path: choose one to force it`;
  const options = (parent ?? node).next;
  const path = idsBefore(data, data.nodes.indexOf(node));
  parts.alternatives.replaceChildren(
    ...options.map(([id, logProb]) => {
      const probability = Math.exp(logProb);
      const button = element("button", "alternative");
      button.type = "button";
      button.disabled = parent !== null && id === node.id;
      const bar = element("span", "bar");
      const filled = element("i");
      filled.style.width = `${100 * Math.min(1, probability)}%`;
      bar.append(filled);
      const share = probability < 0.01 ? "<0.01" : probability.toFixed(2);
      button.append(formOf(data.tokens[id]), element("span", "share", share), bar);
      button.addEventListener("click", () => force(view, [...path, id]));
      return button;
    }),
  );
}

function fillResults(view) {
  const { data, parts } = view;
  const count = data.hypotheses.length;
  parts["results-title"].textContent = count === 1 ? "What was found" : `The ${count} finished, best score first`;
  parts.results.replaceChildren(
    ...data.hypotheses.map(({ text, end, log_prob, score }, place) => {
      const item = element("li");
      const button = element("button", place ? "result" : "result first");
      button.type = "button";
      const sum = element("span", "sum");
      const pieces = data.nodes[end].step;
      const penalty = ((5 + pieces) / 6) ** data.alpha;
      sum.append(`log P ${signed(log_prob, 2)} / ${penalty.toFixed(2)} (${pieces} pieces) = `, element("b", "", signed(score, 4)));
      button.append(element("span", "place", place + 1), element("bdi", "text", text), sum);
      button.addEventListener("click", () => keep(view, end));
      item.append(button);
      return item;
    }),
  );
}
