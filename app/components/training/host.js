// The explorer's host on the training page: the view, the sentence and the step are in the page's URL.

import { writeParameters } from "../shared/url.js";

/**
 * Return a host that answers no requests, as all numbers of all snapshots have been sent.
 * @param {(view: Link) => void} onView  called with the explorer's view when it writes its link
 * @returns {Host}
 */
export function trainingHost(onView) {
  const { pathname } = window.location;
  return {
    answers: new Set(),
    ask: () => {},
    listen: () => () => {},
    link: {
      read: () => Object.fromEntries(new URLSearchParams(window.location.search)),
      write: (parameters) => {
        writeParameters(pathname, parameters);
        if ("kind" in parameters) onView(parameters);
      },
      listen: (navigate) => {
        window.addEventListener("popstate", navigate);
        return () => window.removeEventListener("popstate", navigate);
      },
      url: () => window.location.href,
    },
    headPage: null,
  };
}
