// Downloads a blob as a file.

import { element } from "./dom.js";

export function save(name, blob) {
  const link = element("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
