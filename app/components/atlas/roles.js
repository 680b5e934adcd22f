// Draws one head's roles beside their nulls, and its mean attention by distance.

import { between, percent } from "../shared/numbers.js";
import { cutLabel, drawBox, drawInterval, drawLevel, drawNote, drawText, fontOf } from "../shared/plot.js";
import { profileOf } from "./data.js";

const ROW = 24;

const AXIS = 24;

const NUMBERS = 7; // per role: score, two bounds, three nulls (shuffled rows, random networks, and attention by distance only), share of rows measured

/** A head's roles, the largest score first and those too rare to count last: name, title, score, bounds, nulls and the largest of them, share of rows measured, and `isLabel`. */
export function rolesOf({ places, starts, roles, roleValues, labels, reordered, rows: least }, n) {
  const { kind } = places[n];
  const [count, at] = [roleValues[kind].length / NUMBERS / Math.max(1, roles[kind].length), n - starts[kind]];
  return roles[kind]
    .map((name, role) => {
      const from = NUMBERS * (role * count + at);
      const [score, low, high, shuffled, random, profile, rows] = roleValues[kind].subarray(from, from + NUMBERS);
      const title = reordered.includes(name) ? `${name}, words shuffled` : name;
      const chance = Math.max(...[shuffled, random, profile].filter(Number.isFinite));
      return { name, title, score, low, high, shuffled, random, profile, chance, rows, isLabel: labels[n].includes(name) };
    })
    .filter(({ score }) => Number.isFinite(score))
    .toSorted((a, b) => Number(a.rows < least) - Number(b.rows < least) || b.score - a.score);
}

/* Which of the conditions in the note a role without a label fails first: in full, and in brief for the picture. */
export function whyNoRole({ rows, floor, margin }, { rows: measured, low }) {
  if (measured < rows) return { full: `only ${percent(measured)} of the rows have such a key`, brief: `too rare: ${percent(measured)}` };
  if (low < floor) return { full: `its interval reaches below ${percent(floor)}`, brief: "uncertain" };
  return { full: `chance by itself comes within ${Math.round(100 * margin)} percentage points of its interval`, brief: "\u2248 chance" };
}

export function rolesGeometry(data, n, width) {
  const left = between(96, Math.round(0.5 * width), 190);
  return { left, width, length: width - left - 52, height: rolesOf(data, n).length * ROW + AXIS };
}

/** @param {Drawing} context @param {AtlasView} view */
export function drawRoles(context, { data, theme, chosen }, { left, length }) {
  const rows = rolesOf(data, chosen.head);
  const x = (share) => left + between(0, share, 1) * length;
  const foot = rows.length * ROW;
  const least = Math.max(data.floor, ...rows.filter(({ isLabel }) => isLabel).map(({ score }) => score));
  for (const share of [0, 0.25, 0.5, 0.75, 1]) {
    drawBox(context, theme.line, x(share) - 0.5, 0, 1, foot + 4);
    if (Number.isInteger(share * 2)) drawNote(context, theme, percent(share), x(share), foot + 13, "center");
  }
  rows.forEach((role, row) => {
    const { title, score, low, high, chance, isLabel } = role;
    const y = row * ROW + ROW / 2;
    context.font = fontOf(theme, 13, isLabel ? 650 : 400);
    drawText(context, theme, cutLabel(context, title, left - 8), left - 8, y, { weight: isLabel ? 650 : 400, colour: isLabel ? "ink" : "ink2", align: "right" });
    const fails = !isLabel && score >= least;
    drawBox(context, fails ? theme.line : theme.ramp.css[isLabel ? 150 : 60], x(0), y - 5, Math.max(1, x(score) - x(0)), 10);
    drawInterval(context, theme.ink, x(low), x(high), y);
    if (Number.isFinite(chance)) drawBox(context, theme.ink, x(chance) - 1, y - 9, 2, 18);
    if (fails) drawReason(context, theme, whyNoRole(data, role).brief, x(0), x(1), x(score), y);
    drawText(context, theme, percent(score), left + length + 48, y, { weight: isLabel ? 650 : 400, align: "right" });
  });
}

/* Behind the bar if there is room, else at the end of the bar. */
function drawReason(context, theme, words, left, right, end, y) {
  context.font = fontOf(theme, 12);
  const span = context.measureText(words).width;
  const at = end + 6 + span < right ? end + 6 : Math.max(left, end - 8 - span);
  drawText(context, theme, words, at, y, { size: 12 });
}

const PROFILE = { left: 44, right: 8, top: 8, height: 150, foot: 40 };

export const distanceGeometry = (width) => ({ width, height: PROFILE.top + PROFILE.height + PROFILE.foot });

/** The distance with the largest mean weight. */
export const mainDistance = (data, n) => {
  const profile = profileOf(data, n);
  return data.distances[profile.indexOf(Math.max(...profile))];
};

/** @param {Drawing} context @param {AtlasView} view */
export function drawDistance(context, { data, theme, chosen }, { width }) {
  const profile = profileOf(data, chosen.head);
  const { left, top, height } = PROFILE;
  const length = width - left - PROFILE.right;
  const step = length / profile.length;
  const high = ceiling(Math.max(...profile));
  const y = (share) => top + height - (share / high) * height;
  for (const share of [0, high / 2, high]) drawLevel(context, theme, percent(share), y(share), left, length, 6);
  const first = data.distances[0];
  const last = data.distances[data.distances.length - 1];
  profile.forEach((share, at) => {
    const x = left + at * step;
    if (share > 0) drawBox(context, theme.ramp.css[150], x + 0.5, y(share), Math.max(1, step - 1), top + height - y(share));
    const distance = data.distances[at];
    if (distance % 5) return;
    if (distance === 0) drawBox(context, theme.ink, x + step / 2 - 0.5, top + height, 1, 6);
    if (distance % 10 && width < 420) return;
    const sign = distance > 0 ? "+" : distance < 0 ? "\u2212" : "";
    const text = `${distance === first ? "\u2026" : ""}${sign}${Math.abs(distance)}${distance === last ? "\u2026" : ""}`;
    const [at0, align] = distance === first ? [x, "left"] : distance === last ? [x + step, "right"] : [x + step / 2, "center"];
    drawNote(context, theme, text, at0, top + height + 13, align, distance ? "ink2" : "ink");
  });
  const words = data.places[chosen.head].kind === "cross" ? "key position minus the diagonal's, in tokens" : "key position minus query position, in tokens";
  drawNote(context, theme, words, left, top + height + 31);
}

/* The upper end of an axis that shows this share. Its half, which is a tick, is also a whole percentage. */
function ceiling(share) {
  return [0.02, 0.04, 0.06, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1].find((round) => round >= share) ?? 1;
}
