// Lists the words of a sentence, each above what it became in the translation.

import { element, partsOf } from "../shared/dom.js";
import { readTheme } from "../shared/theme.js";

export default function render({ data, parentElement }) {
  const root = parentElement.querySelector(".gloss");
  readTheme(root);
  const { words } = partsOf(root);
  words.setAttribute("aria-label", data.title);
  const pairs = data.words.map(([word, gloss]) => {
    const pair = element("li");
    pair.append(element("bdi", "", word), element("bdi", "said", gloss || "\u2013"));
    return pair;
  });
  words.replaceChildren(...pairs);
}
