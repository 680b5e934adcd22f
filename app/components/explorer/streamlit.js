// The explorer in the app: requests become component state, answers come from ../answers, and the view is in the URL.

import { unpack } from "../shared/bytes.js";
import { mailboxOf } from "../shared/mailbox.js";
import { asPythonWrites, prepareSwitch, writeParameters } from "../shared/url.js";
import { render } from "./main.js";

/** @implements {Host} */
class StreamlitHost {
  answers = new Set();
  /* What Python says about this explorer: see `host` in payload.py. */
  about = null;
  together = false;
  setState = null;
  trigger = null;
  pathname = window.location.pathname;
  link = {
    // An explorer shown together with the one that owns the URL opens with the same view.
    read: () => (this.about.address || this.together ? Object.fromEntries(new URLSearchParams(window.location.search)) : {}),
    write: (parameters) => this.about.address && writeParameters(this.pathname, parameters),
    listen: (navigate) => listening("popstate", () => this.about.address && navigate()),
    url: () => window.location.href,
  };
  headPage = null;

  update(raw, setState, trigger) {
    Object.assign(this, { about: raw.host, together: Boolean(raw.together), setState, trigger });
    this.answers = new Set(raw.host.answers);
    this.headPage = raw.host.head_page ? this.pageOf(raw.host.head_page) : null;
  }

  ask(name, value) {
    if (name === "edit") this.trigger(name, value);
    else this.setState(name, value);
  }

  listen(receive) {
    return mailboxOf(this.about.key).listen((answer, name) => {
      receive(answer);
      // A page is large: Python must not send it again.
      if (name === "page") this.setState(name, null);
    });
  }

  /** @returns {HeadPage} */
  pageOf(page) {
    return {
      url: () => `${page}?${new URLSearchParams(window.location.search)}`,
      // Python opens the page, so that the session survives.
      open: () => {
        const query = asPythonWrites(new URLSearchParams(window.location.search));
        prepareSwitch(query);
        this.trigger("inside", query);
      },
      listen: (click) => {
        const { pathname } = new URL(page, window.location.href);
        const isLink = ({ target }) => target.closest?.("a[href]")?.pathname === pathname;
        return listening("click", (event) => isLink(event) && click(event), true);
      },
    };
  }
}

function listening(type, listener, capture = false) {
  window.addEventListener(type, listener, capture);
  return () => window.removeEventListener(type, listener, capture);
}

/** @type {WeakMap<object, StreamlitHost>}  by parent element */
const streamlitHosts = new WeakMap();

/* Streamlit calls this for every change of data or theme. */
export function renderInStreamlit({ data, parentElement, key, setStateValue, setTriggerValue }) {
  const host = streamlitHosts.get(parentElement) ?? new StreamlitHost();
  streamlitHosts.set(parentElement, host);
  host.update(unpack(data), setStateValue, setTriggerValue);
  return render({ data, parentElement, key, host });
}
