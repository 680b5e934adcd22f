// Exports: the shown picture and the overview as PNG, SVG or PDF, the map's numbers as CSV, the view as a link or a page.

import { copyText, flashText } from "../shared/clipboard.js";
import { csvOf, numbered, quoted, shortest } from "../shared/csv.js";
import { save } from "../shared/save.js";
import { aboutLines } from "./about.js";
import { currentMap } from "./focus.js";
import { writeLink } from "./link.js";
import { isMasked, valueAt } from "./maps.js";
import { request, withExact } from "./requests.js";
import { overviewPicture, rowName, saveView, viewPicture } from "./saved_picture.js";
import { linkOf } from "./view.js";
import { mapTitle, pictureTitle } from "./words.js";

/**
 * The map as CSV: masked cells are empty, all others hold the most exact numbers available, or values derived from
 * them. The first cell describes the file and says how exact the numbers are.
 * @param {Explorer} explorer
 */
function mapAsCsv(explorer) {
  const map = currentMap(explorer);
  const columns = map.columns.map(({ label, number }) => numbered(label, number));
  const lines = map.rows.map((row, query) => {
    const cells = columns.map((_, key) => (isMasked(map, query, key) ? "" : shortest(valueAt(map, query, key))));
    return [numbered(rowName(explorer, row), row.number), ...cells];
  });
  const axes = `rows: query, ${map.kind === "encoder" ? "the token read" : "token fed in \u2192 token produced"}; columns: key`;
  const { sourceText, translation } = explorer.data;
  const about = [pictureTitle(explorer.data, explorer.view), mapTitle(explorer.data, explorer.view), axes, ...aboutLines(explorer), sourceText, translation];
  return csvOf([[quoted(about.join("; ")), ...columns], ...lines]);
}

function fileName({ data, view }, what) {
  const { kind, layer, head, combine, quantity, unit, picture } = view;
  const place = [
    layer === data.layers[kind] ? `${combine}-of-layers` : `layer${layer + 1}`,
    head === data.heads ? `${combine}-of-heads` : `head${head + 1}`,
  ];
  const parts = what === "overview" ? [kind, "overview"] : [kind, ...place, ...(picture === "map" ? [] : [picture])];
  const rest = [quantity, unit].filter((name) => name !== "weights" && name !== "pieces");
  return ["headlight", ...parts, ...rest].join("_");
}

/** @type {Record<string, (explorer: Explorer, button: HTMLElement) => unknown>} */
const EXPORTS = {
  "map-png": (explorer) => saveView(explorer, fileName(explorer), "png", viewPicture(explorer)),
  "map-svg": (explorer) => saveView(explorer, fileName(explorer), "svg", viewPicture(explorer)),
  "map-pdf": (explorer) => saveView(explorer, fileName(explorer), "pdf", viewPicture(explorer)),
  "map-csv": (explorer) => {
    const chosen = { ...explorer, view: { ...explorer.view, picture: /** @type {"map"} */ ("map") } };
    withExact(explorer, (data) => save(`${fileName(chosen)}.csv`, mapAsCsv({ ...chosen, data })));
  },
  "overview-png": (explorer) => saveView(explorer, fileName(explorer, "overview"), "png", overviewPicture(explorer)),
  "overview-svg": (explorer) => saveView(explorer, fileName(explorer, "overview"), "svg", overviewPicture(explorer)),
  "overview-pdf": (explorer) => saveView(explorer, fileName(explorer, "overview"), "pdf", overviewPicture(explorer)),
  page: savePage,
  link: copyLink,
};

/** Request a standalone page, which opens with the current view. @param {Explorer} explorer */
function savePage(explorer) {
  const { sentence } = explorer.data;
  request(explorer, "page", { sentence, view: linkOf(explorer.data, explorer.view) }, {
    what: "The page",
    take: (_, /** @type {any} */ { page }) => {
      save(`headlight-${sentence}.html`, new Blob([page], { type: "text/html" }));
      return true;
    },
  });
}

/** Hide the exports that the host does not offer. @param {Explorer} explorer */
export function buildExports({ dom: { root }, host }) {
  const hide = (name, hidden) => (/** @type {HTMLElement} */ (root.querySelector(`[data-export=${name}]`)).hidden = hidden);
  hide("link", host.link === null);
  hide("page", !host.answers.has("page"));
}

/** @param {Explorer} explorer */
async function copyLink(explorer, button) {
  writeLink(explorer);
  // The same link is in the address bar.
  flashText(button, (await copyText(explorer.host.link.url())) ? "Copied" : "In the address bar", "Copy link");
}

/** @param {Explorer} explorer */
export function listenToExport(explorer) {
  const buttons = /** @type {NodeListOf<HTMLElement>} */ (explorer.dom.root.querySelectorAll("[data-export]"));
  for (const button of buttons) {
    button.addEventListener("click", () => EXPORTS[button.dataset.export](explorer, button));
  }
}
