// Says where a saved picture or table comes from: model, record and precision.

import { currentMap } from "./focus.js";
import { derivation } from "./words.js";

/** Provenance lines of every file: model, record and precision. @param {Explorer} explorer */
export function aboutLines(explorer) {
  const { data } = explorer;
  const weights = data.weightsSha256 ? ` (weights ${data.weightsSha256.slice(0, 8)})` : "";
  return [
    [`${data.model}${weights}`, `${data.sourceLanguage} to ${data.targetLanguage}`, data.search].filter(Boolean).join(", "),
    `record ${data.sentence}, ${precisionOf(explorer)}`,
  ];
}

/** @param {Explorer} explorer */
function precisionOf(explorer) {
  const { error } = currentMap(explorer);
  const how = derivation(explorer.data, explorer.view);
  const numbers = error ? `numbers rounded, at most ${error.toPrecision(1)} off` : "32-bit numbers as recorded";
  return how ? `derived, ${how}, from ${numbers}` : numbers;
}
