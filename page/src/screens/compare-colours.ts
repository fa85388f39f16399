/** The colours of compared jobs: one of the page's for each job, or by the values of what sets the jobs apart. */

import type { ComparedRow } from "../types";

export const COLOURS = 8;

/** A place in the page's colours (`--line-N`), or between the first two of them. */
export type Hue = { line: number } | { share: number };

/** What jobs can be coloured by: inputs and parameters that differ. */
export const colourable = (rows: ComparedRow[]): ComparedRow[] =>
  rows.filter((row) => (row.section === "inputs" || row.section === "parameters") && new Set(row.values.map(String)).size > 1);

const numberIn = (value: unknown): number | undefined => {
  if (typeof value === "number") return value;
  const number = typeof value === "string" && value.trim() ? Number(value) : NaN;
  return Number.isFinite(number) ? number : undefined;
};

/** The hue of each job by a row: numbers on a scale, by their logarithm where they span magnitudes; other values each with its own. */
export function huesOf(row: ComparedRow | undefined, count: number): Hue[] {
  if (!row) return Array.from({ length: count }, (_, n) => ({ line: n % COLOURS }));
  const numbers = row.values.map(numberIn);
  const known = numbers.filter((one): one is number => one !== undefined);
  if (known.length === row.values.filter((one) => one !== null).length && new Set(known).size > 2) {
    const [low, high] = [Math.min(...known), Math.max(...known)];
    const scale = low > 0 && high / low >= 100 ? Math.log : (value: number) => value;
    return numbers.map((one) => (one === undefined ? { line: COLOURS - 1 } : { share: (scale(one) - scale(low)) / (scale(high) - scale(low)) }));
  }
  const values = [...new Set(row.values.map(String))];
  return row.values.map((value) => ({ line: values.indexOf(String(value)) % COLOURS }));
}

/** A hue as the browser draws it. */
export function colourOf(hue: Hue, style: CSSStyleDeclaration): string {
  const named = (line: number) => style.getPropertyValue(`--line-${line}`).trim();
  return "line" in hue ? named(hue.line) : mixed(named(0), named(1), hue.share);
}

/** `#rrggbb` between two others. */
export function mixed(from: string, to: string, share: number): string {
  const parts = (colour: string) => [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
  const [a, b] = [parts(from), parts(to)];
  return `#${a.map((one, n) => Math.round(one + (b[n]! - one) * share).toString(16).padStart(2, "0")).join("")}`;
}
