// Writes tables as CSV: the one writer of all canvases.

export const quoted = (words) => `"${String(words).replaceAll('"', '""')}"`;

/* The fewest digits that give the same 32-bit number again. */
export function shortest(value) {
  if (!Number.isFinite(value)) return String(value);
  for (let digits = 1; digits < 9; digits++) {
    const text = value.toPrecision(digits);
    if (Math.fround(Number(text)) === Math.fround(value)) return String(Number(text));
  }
  return String(Number(value.toPrecision(9)));
}

/*
 * A token's number in front of its words, as on the page: it keeps repeated words apart, and a spreadsheet from taking a
 * word like =1+1 for a formula.
 */
export const numbered = (words, number) => quoted(`${number} ${words}`);

/* Lines of cells that are written already; spreadsheets need the mark in front to read UTF-8. */
export const csvOf = (lines) => new Blob([`\ufeff${lines.map((line) => line.join(",")).join("\r\n")}\r\n`], { type: "text/csv" });
