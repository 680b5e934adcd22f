// Shows the lesson or the states that the page's link names, in place of the explorer.

const NAMES = ["masks", "positions", "copy", "push"];

/**
 * @param {Record<string, any>} parts  the page's named elements
 * @param {object} page
 * @param {() => Record<string, string>} page.link  the parameters of the page's link
 * @param {(name: string | null) => void} page.open  open a lesson, or none
 * @param {(edits: string) => Promise<{payload: Uint8Array, again: string | null}>} page.pass  see `mountLessons`
 * @param {object} page.states  what `mountStates` needs
 * @returns {{isOpen: () => boolean, paint: () => Promise<void>, add: (mount: Function) => Promise<void>, addStates: (mount: Function) =>
 *   Promise<void>}} paint: show the lesson that the link names, or none; add, addStates: mount the lessons or the states, whose
 *   scripts come after the page's
 */
export function lessonPlace(parts, { link, open, pass, states }) {
  const shows = [];
  const chosen = () => NAMES.find((name) => name === link().lesson) ?? null;
  const paint = async () => {
    document.body.classList.toggle("lesson", chosen() !== null);
    await Promise.all(shows.map((show) => show(chosen())));
  };
  for (const button of parts.lessons.querySelectorAll("[data-lesson]")) button.addEventListener("click", () => open(button.dataset.lesson));
  const added = (mount, page) => {
    shows.push(mount(page));
    return paint();
  };
  const filesOf = (id) => /** @type {HTMLTemplateElement} */ (document.getElementById(id)).content;
  return {
    isOpen: () => chosen() !== null,
    paint,
    add: (mount) => {
      const tables = JSON.parse(document.getElementById("lesson-tables").textContent);
      return added(mount, { place: parts.lesson, files: filesOf("lesson-files"), tables, pass, open });
    },
    addStates: (mount) => added(mount, { place: parts.states, files: filesOf("states-files"), link, open, ...states }),
  };
}
