// Shows the lesson, the states or the training that the page's link names, in place of the explorer.

const NAMES = ["masks", "positions", "copy", "push", "train"];

/**
 * @param {Record<string, any>} parts  the page's named elements
 * @param {object} page
 * @param {() => Record<string, string>} page.link  the parameters of the page's link
 * @param {(name: string | null) => void} page.open  open a lesson, or none
 * @param {(edits: string) => Promise<{payload: Uint8Array, again: string | null}>} page.pass  see `mountLessons`
 * @param {{write: (changes: Record<string, any>) => void}} page.states  what `mountStates` needs
 * @param {(model: object, stored: object, source: string) => Promise<void>} page.offer  see `mountTrain`
 * @returns {{isOpen: () => boolean, paint: () => Promise<void>, add: (mount: Function) => Promise<void>, addStates: (mount: Function) =>
 *   Promise<void>, addTrain: (mount: Function) => Promise<void>}} paint: show the lesson that the link names, or none; add, addStates,
 *   addTrain: mount the lessons, the states or the training, whose scripts come after the page's
 */
export function lessonPlace(parts, { link, open, pass, states, offer }) {
  const shows = [];
  const chosen = () => NAMES.find((name) => name === link().lesson) ?? null;
  const paint = async () => {
    document.body.classList.toggle("lesson", chosen() !== null);
    document.body.classList.toggle("train", chosen() === "train");
    await Promise.all(shows.map((show) => show(chosen())));
  };
  for (const button of parts.lessons.querySelectorAll("[data-lesson]")) button.addEventListener("click", () => open(button.dataset.lesson));
  const added = (mount, page) => {
    shows.push(mount(page));
    return paint();
  };
  const filesOf = (id) => /** @type {HTMLTemplateElement} */ (document.getElementById(id)).content;
  const textOf = (id) => document.getElementById(id).textContent;
  return {
    isOpen: () => chosen() !== null,
    paint,
    add: (mount) => {
      const tables = JSON.parse(textOf("lesson-tables"));
      return added(mount, { place: parts.lesson, files: filesOf("lesson-files"), tables, pass, open });
    },
    addStates: (mount) => added(mount, { place: parts.states, files: filesOf("states-files"), link, open, ...states }),
    addTrain: (mount) => {
      const table = JSON.parse(textOf("train-table")), script = textOf("train-worker");
      return added(mount, { place: parts.train, files: filesOf("train-files"), table, script, link, write: states.write, open, offer });
    },
  };
}
