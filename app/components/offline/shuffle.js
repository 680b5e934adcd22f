// The app's shuffles: a number gives the same order here as in core.record.edits, where Python draws it. No DOM.

import { twister } from "../network/twister.js";

/**
 * An order of `length` positions, fixed by the number, as Python's `random.Random(number).shuffle` draws it. It is never
 * the identity, unless there is a single position.
 * @param {number} number
 * @param {number} length
 */
export function shuffled(number, length) {
  const order = [...Array(length).keys()];
  const bits = twister(number);
  while (order.length > 1 && order.every((place, at) => place === at)) {
    for (let last = length - 1; last > 0; last--) {
      const other = below(last + 1, bits);
      [order[last], order[other]] = [order[other], order[last]];
    }
  }
  return order;
}

/* A random number from 0 to limit − 1. */
function below(limit, bits) {
  const unused = Math.clz32(limit);
  let drawn = limit;
  while (drawn >= limit) drawn = bits() >>> unused;
  return drawn;
}
