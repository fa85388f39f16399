/** Rows of a comparison in words. What users named is printed as it is: a metric called `samples_per_s` is no time. */

import { duration, size, text } from "../format";
import type { ComparedRow } from "../types";

export const labelOf = (row: ComparedRow): string =>
  row.section === "outcome" ? row.key.replace(/_s$/, "").replaceAll("_", " ") : row.key;

export function textOf(row: ComparedRow, value: unknown): string {
  if (row.section === "outcome" && typeof value === "number") {
    if (row.key.endsWith("_s")) return duration(value);
    if (row.key.endsWith("_bytes")) return size(value);
  }
  return text(value);
}
