/** The ledger as comma-separated values, as `drumbeat ledger --csv` prints it. */

import type { Ledger } from "../types";

const KINDS = { "": "seconds", slot_: "slot_seconds", gpu_: "gpu_seconds" } as const;

/** A spreadsheet takes a text that begins so for a formula. */
const isFormula = (text: string): boolean => /^[=+\-@\t\r]/.test(text);

function cell(value: string | number): string {
  const text = typeof value === "string" && isFormula(value) ? `'${value}` : String(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

export function csvOf(ledger: Ledger): string {
  const classes = Object.keys(ledger.total.seconds);
  const heads = [ledger.by, "jobs", "gpu_hours", "slot_hours", "busy_gpu_hours", "cost", "currency", "wall_s", ...Object.keys(KINDS).flatMap((kind) => classes.map((one) => `${kind}${one}_s`))];
  const rows = ledger.rows.map((row) => [
    row.name, row.jobs, ...[row.gpu_s, row.slot_s, row.busy_gpu_s].map((one) => (one / 3600).toFixed(6)), row.cost ?? "", ledger.currency, row.wall_s,
    ...Object.values(KINDS).flatMap((kind) => classes.map((one) => row[kind][one] ?? 0)),
  ]);
  return [heads, ...rows].map((row) => `${row.map(cell).join(",")}\r\n`).join("");
}
