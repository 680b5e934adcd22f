// Measure a page's main column: the words of its first screen, those of the page with all folds closed, and its height.
//
// A word is a run without spaces that holds a letter or a digit, in visible text: also in shadow roots, in buttons and in
// tables, but not in closed folds or texts for screen readers alone. What a visitor looks at instead of reading does not
// count: pictures (canvas, SVG with its tick labels), axis labels of a question's grid, formulas, sentences and their
// tokens, symbols of a word that is cut into tokens, captions of thumbnails, and what text and selection boxes hold. The budgets are in test_budgets.py.
() => {
  const NOT_READ =
    "svg, canvas, .katex, textarea, select, option, .sentence, .symbols, .cells > span, .thumbnail, .st-key-translation, .st-key-two_translations, .st-key-bug_translations, style, script";
  const main = document.querySelector("[data-testid=stMain]");
  const sentence = main.querySelector(".st-key-source textarea")?.value.trim();
  const around = (node) => node.parentElement ?? node.getRootNode().host ?? null;
  const isSkipped = (node) => {
    let below = null;
    for (let at = node.parentElement ?? node.getRootNode().host; at && at !== main; [below, at] = [at, around(at)]) {
      if (at.tagName === "DETAILS" && !at.open && below?.tagName !== "SUMMARY") return true;
      if (at.matches(NOT_READ)) return true;
      const style = getComputedStyle(at);
      if (style.visibility === "hidden" || style.opacity === "0") return true;
      if (style.overflow !== "visible" && Math.min(at.offsetWidth, at.offsetHeight) <= 1) return true;
      if (style.clipPath === "inset(50%)") return true;
    }
    return false;
  };
  const textsOf = function* (root) {
    for (const child of root.childNodes) {
      if (child.nodeType === Node.TEXT_NODE) yield child;
      if (child.nodeType !== Node.ELEMENT_NODE) continue;
      if (child.shadowRoot) yield* textsOf(child.shadowRoot);
      yield* textsOf(child);
    }
  };
  const words = (line) => (/^→ /u.test(line) || line.trim() === sentence ? [] : line.match(/\S*[\p{L}\p{N}]\S*/gu) ?? []);
  const count = (limit) => {
    let found = 0;
    for (const text of textsOf(main)) {
      const range = document.createRange();
      range.selectNodeContents(text);
      const boxes = [...range.getClientRects()].filter((box) => box.width && box.height && box.top < limit && box.bottom > 0);
      if (!boxes.length || isSkipped(text)) continue;
      for (const line of text.data.split("\n")) found += words(line).length;
    }
    return found;
  };
  const folds = function* (root) {
    for (const element of root.querySelectorAll("*")) {
      if (element.tagName === "DETAILS") yield element;
      if (element.shadowRoot) yield* folds(element.shadowRoot);
    }
  };
  main.scrollTop = 0;
  const first = count(innerHeight);
  const opened = [...folds(main)].filter((fold) => fold.open);
  for (const fold of opened) fold.open = false;
  const found = { first, page: count(Infinity), height: main.scrollHeight };
  for (const fold of opened) fold.open = true;
  return found;
};
