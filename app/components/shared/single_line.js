// Makes a text area behave as a single line: Enter applies its text, and line breaks become spaces.

const BREAKS = /\s*[\r\n]+\s*/g;

/** Join the lines of a text with spaces. @param {string} text */
export const oneLine = (text) => text.replace(BREAKS, " ");

/**
 * Call `apply` on Enter, except for an Enter that confirms an input-method composition. Join the
 * lines of pasted text.
 * @param {HTMLTextAreaElement} area
 * @param {(area: HTMLTextAreaElement) => void} apply
 */
export function keepOnOneLine(area, apply) {
  area.rows = 1; // for browsers without field-sizing
  area.addEventListener("beforeinput", (event) => {
    if (event.inputType !== "insertLineBreak" && event.inputType !== "insertParagraph") return;
    event.preventDefault();
    apply(area);
  });
  area.addEventListener("input", () => joinLines(area));
}

/*
 * Join the lines of pasted or dropped text. Use the native setter: React would not notice a value
 * set through its own.
 */
function joinLines(area) {
  if (!/[\r\n]/.test(area.value)) return;
  const caret = oneLine(area.value.slice(0, area.selectionStart)).length;
  const { set } = Object.getOwnPropertyDescriptor(HTMLTextAreaElement.prototype, "value");
  set.call(area, oneLine(area.value));
  area.setSelectionRange(caret, caret);
}
