// CSV output shared by all components.

/* A text as a cell. An apostrophe keeps spreadsheets from reading =1+1 as a formula, as in app/export/arrays.py. */
export function quoted(words) {
  const text = String(words);
  const isFormula = text.length > 1 && "=+-@\t\r".includes(text[0]);
  return `"${isFormula ? "'" : ""}${text.replaceAll('"', '""')}"`;
}

/* The shortest decimal that round-trips to the same 32-bit float. */
export function shortest(value) {
  if (!Number.isFinite(value)) return String(value);
  for (let digits = 1; digits < 9; digits++) {
    const text = value.toPrecision(digits);
    if (Math.fround(Number(text)) === Math.fround(value)) return String(Number(text));
  }
  return String(Number(value.toPrecision(9)));
}

/* Prefix a token with its position, which distinguishes repeated words. */
export const numbered = (words, number) => quoted(`${number} ${words}`);

/* Join cells that are numbers or quoted texts; the BOM makes spreadsheets read UTF-8. */
export const csvOf = (lines) => new Blob([`\ufeff${lines.map((line) => line.join(",")).join("\r\n")}\r\n`], { type: "text/csv" });
