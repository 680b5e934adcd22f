// The guided tour, or a plan for a class: each stop translates a sentence, opens one head and says what was measured there.

import { bold } from "../shared/dom.js";

/**
 * Let the page's buttons lead through the stops of the chosen direction. The tour only sets the page's link: the
 * visitor can change everything at any time, and return to the stop.
 * @param {Record<string, any>} parts  the page's named elements
 * @param {object} page
 * @param {() => import("./choice.js").OfflineModel} page.model  of the chosen direction, with the tour's stops
 * @param {() => import("./choice.js").OfflineModel | undefined} page.other  of another direction that has a tour
 * @param {() => string} page.source  the chosen text
 * @param {() => Record<string, string>} page.link  the parameters of the page's link
 * @param {(link: Record<string, string>) => void} page.open  open a link, whose parameters replace all present ones
 * @param {() => void} page.close  take the stop out of the link
 * @returns {() => void} paint the stop that the link names; call it after each change
 */
export function listenToTour(parts, { model, other, source, link, open, close }) {
  const stopOf = () => Number(link().stop ?? 0); // counted from 1
  const go = (number, of = model()) => open(linkOfStop(of, number));
  const paint = () => paintTour(parts, model(), other(), stopOf(), source());
  const listen = (name, act) => parts[name].addEventListener("click", act);
  listen("tour-start", () => go(1));
  listen("tour-back", () => go(stopOf() - 1));
  listen("tour-next", () => go(stopOf() + 1));
  listen("tour-again", () => go(stopOf()));
  listen("tour-other", () => go(1, other()));
  listen("tour-close", () => {
    close();
    paint();
    parts["tour-start"].focus();
  });
  return paint;
}

/* The link of a stop, counted from 1. */
export function linkOfStop({ direction, tour }, number) {
  const stop = tour[number - 1];
  return { direction, source: stop.source, ...stop.view, stop: String(number) };
}

/* What is wrong with the stop of a link, in one line; "" if nothing is. @param {string | undefined} stop */
export function unknownStop({ tour, plan }, stop) {
  if (stop === undefined || tour[Number(stop) - 1]) return "";
  const name = plan ? "plan" : "tour";
  const has = tour.length ? `the ${name} has stops 1 to ${tour.length}: use its buttons` : "this direction has no tour";
  return `This link opens stop \u201c${stop.slice(0, 40)}\u201d, and ${has}.`;
}

function paintTour(parts, { source: from, target: to, tour, plan, left_out }, other, number, source) {
  const stop = tour[number - 1];
  parts["tour-start"].hidden = !tour.length;
  parts.tour.hidden = !stop;
  const tell = (name, words) => (parts[name].textContent = words);
  if (plan) {
    tell("tour-start", "Start the plan");
    tell("tour-close", "Leave the plan");
    tell("tour-end", "The plan ends here.");
  }
  if (!stop) return;
  tell("tour-place", `Stop ${number} of ${tour.length}, ${from} \u2192 ${to}`);
  tell("tour-title", stop.title);
  tell("tour-look", stop.look_for);
  const [before, share, after] = stop.measured;
  parts["tour-measured"].hidden = !share;
  parts["tour-measured"].replaceChildren(`${before} `, bold(share), ` ${after}`);
  tell("tour-tokens", stop.tokens);
  parts["tour-back"].disabled = number === 1;
  parts["tour-next"].disabled = number === tour.length;
  parts["tour-again"].hidden = source === stop.source;
  parts["tour-end"].hidden = number < tour.length;
  tell("tour-left-out", number === tour.length && left_out.length ? `Not in this page: ${left_out.join("; ")}.` : "");
  parts["tour-other"].hidden = number < tour.length || !other;
  if (other) tell("tour-other", `The same tour, ${other.source} \u2192 ${other.target}`);
}
