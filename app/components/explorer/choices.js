// Options of the view other than kind, layer and head, and their defaults.

import { ORDERS } from "./captions.js";

export const OPTIONS = {
  picture: ["map", "lines"],
  unit: ["pieces", "words"],
  sort: Object.keys(ORDERS),
  combine: ["mean", "max"],
  quantity: ["weights", "change", "scores", "norms", "rollout"],
  /* All layers of the strip: of no side, of the encoder, or of both. */
  states: ["folded", "encoder", "both"],
};

export const QUANTITY_OPTIONS = { weights: "weights", change: "change", scores: "scores", norms: "value norms", rollout: "rollout" };

export const HIDEABLE = ["eos", "punctuation"];

/* % of each row's weight that the lines cover. */
export const MASSES = { least: 30, most: 95, usual: 70 };
