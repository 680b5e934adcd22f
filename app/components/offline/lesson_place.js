// Shows the lesson that the page's link names, in place of the explorer.

const NAMES = ["masks", "positions"];

/**
 * @param {Record<string, any>} parts  the page's named elements
 * @param {object} page
 * @param {() => Record<string, string>} page.link  the parameters of the page's link
 * @param {(name: string | null) => void} page.open  open a lesson, or none
 * @param {(edits: string) => Promise<{payload: Uint8Array, again: string | null}>} page.pass  see `mountLessons`
 * @returns {{isOpen: () => boolean, paint: () => Promise<void>, add: (mount: Function) =>
 *   Promise<void>}} paint: show the lesson that the link names, or none; add: mount the lessons,
 *   whose script comes after the page's
 */
export function lessonPlace(parts, { link, open, pass }) {
  let show = async (name) => void name;
  const chosen = () => NAMES.find((name) => name === link().lesson) ?? null;
  const paint = () => {
    document.body.classList.toggle("lesson", chosen() !== null);
    return show(chosen());
  };
  for (const button of parts.lessons.querySelectorAll("[data-lesson]")) button.addEventListener("click", () => open(button.dataset.lesson));
  const add = (mount) => {
    const tables = JSON.parse(document.getElementById("lesson-tables").textContent);
    show = mount({ place: parts.lesson, files: document.getElementById("lesson-files"), tables, pass, open });
    return paint();
  };
  return { isOpen: () => chosen() !== null, paint, add };
}
