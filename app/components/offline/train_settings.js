// What the visitor chooses before a training, in the page's link under the app's names, as app/views/train/settings.py. No DOM.

/** @typedef {import("../network/training/run.js").SmallConfig} SmallConfig */

/** By parameter of the link: a label, the options, and the usual one. */
export const SETTINGS = {
  train_layers: { label: "Layers of each side", options: [1, 2, 3], usual: 2 },
  train_heads: { label: "Heads", options: [1, 2, 4, 8], usual: 4 },
  train_width: { label: "d_model", options: [32, 64, 96], usual: 64 },
  train_positions: { label: "Positions", options: ["sinusoids", "learned", "none"], usual: "sinusoids" },
  train_norm: { label: "Norm", options: ["before", "after"], usual: "before" },
  train_smoothing: { label: "Label smoothing", options: [0, 0.1], usual: 0 },
  train_warmup: { label: "Warm-up steps", options: [1, 50, 200], usual: 50 },
};
const [TASK, SEED, MISTAKE] = ["train_task", "train_seed", "train_bug"];
const LARGEST_SEED = 9999;

/** Ready experiments: what each sets, over the usual settings. */
export const EXPERIMENTS = {
  positions: { train_task: "reversal", train_positions: "none" },
  causal: { [MISTAKE]: "no_causal_mask" },
  heads: { train_heads: 1 },
};

/** All settings of a link; impossible ones become the usual. @param {Record<string, string>} link @param {string[]} tasks @param {string[]} mistakes */
export function settingsOf(link, tasks, mistakes) {
  const chosen = ({ options, usual }, given) => options.find((one) => String(one) === given) ?? usual;
  const seed = /^\d{1,4}$/.test(link[SEED] ?? "") ? Number(link[SEED]) : 1;
  const own = Object.fromEntries(Object.entries(SETTINGS).map(([name, setting]) => [name, chosen(setting, link[name])]));
  return {
    ...own, [SEED]: Math.min(seed, LARGEST_SEED),
    [TASK]: chosen({ options: tasks, usual: tasks[0] }, link[TASK]), [MISTAKE]: chosen({ options: mistakes, usual: "none" }, link[MISTAKE]),
  };
}

/** The parameters of a link with these settings; null for a usual one. */
export function linkOfSettings(settings, tasks) {
  const usual = settingsOf({}, tasks, []);
  return Object.fromEntries(Object.keys(usual).map((name) => [name, (settings[name] ?? usual[name]) === usual[name] ? null : settings[name]]));
}

/** @returns {SmallConfig} */
export function configOf(settings) {
  return {
    layers: settings.train_layers, heads: settings.train_heads, d_model: settings.train_width, positions: settings.train_positions,
    norm_first: settings.train_norm === "before", label_smoothing: settings.train_smoothing, warmup: settings.train_warmup,
    seed: settings[SEED], bug: settings[MISTAKE] === "none" ? null : settings[MISTAKE],
  };
}

/** The same network without its mistake, with positions, with four heads; null if that is the same. @param {SmallConfig} config @returns {SmallConfig | null} */
export function withoutChange(config) {
  const positions = config.positions === "none" ? "sinusoids" : config.positions, heads = config.heads === 1 ? 4 : config.heads;
  const isPlain = config.bug === null && positions === config.positions && heads === config.heads;
  return isPlain ? null : { ...config, bug: null, positions, heads };
}
