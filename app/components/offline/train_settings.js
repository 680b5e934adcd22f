// What the visitor chooses before a training, in the page's link under the app's names, as app/views/train/settings.py. No DOM.

/**
 * @typedef {import("../network/training/run.js").SmallConfig} SmallConfig
 * @typedef {Record<string, {label: string, usual: any, options?: any[], most?: number}>} Settings  by parameter of the link; without
 *   options, a whole number from 0
 */

/** The settings of the lesson's table, with all options. @param {LessonTable & {tasks: object}} table @returns {Settings} */
export function settingsOf({ texts, rules: { settings }, tasks }) {
  const mistakes = Object.keys(texts).flatMap((key) => (key.startsWith("mistake.") ? [key.slice(8)] : []));
  return { ...settings, train_task: { ...settings.train_task, options: Object.keys(tasks) }, train_bug: { ...settings.train_bug, options: mistakes } };
}

/** What a link chooses; impossible values become the usual. @param {Record<string, any>} link @param {Settings} settings */
export function chosenIn(link, settings) {
  const chosen = (given, { options = null, most = 0, usual }) => {
    if (options) return options.find((one) => String(one) === String(given)) ?? usual;
    return /^\d{1,4}$/.test(given ?? "") ? Math.min(Number(given), most) : usual;
  };
  return Object.fromEntries(Object.entries(settings).map(([name, setting]) => [name, chosen(link[name], setting)]));
}

/** The parameters of a link with a choice; null for a usual value. @param {Record<string, any>} chosen @param {Settings} settings */
export const linkOfSettings = (chosen, settings) =>
  Object.fromEntries(Object.entries(settings).map(([name, { usual }]) => [name, (chosen[name] ?? usual) === usual ? null : chosen[name]]));

/** @returns {SmallConfig} */
export function configOf(chosen) {
  return {
    layers: chosen.train_layers, heads: chosen.train_heads, d_model: chosen.train_width, positions: chosen.train_positions,
    norm_first: chosen.train_norm === "before", label_smoothing: chosen.train_smoothing, warmup: chosen.train_warmup,
    seed: chosen.train_seed, bug: chosen.train_bug === "none" ? null : chosen.train_bug,
  };
}

/** The same network without its mistake, with positions, with four heads; null if that is the same. @param {SmallConfig} config @returns {SmallConfig | null} */
export function withoutChange(config) {
  const positions = config.positions === "none" ? "sinusoids" : config.positions, heads = config.heads === 1 ? 4 : config.heads;
  const isPlain = config.bug === null && positions === config.positions && heads === config.heads;
  return isPlain ? null : { ...config, bug: null, positions, heads };
}
