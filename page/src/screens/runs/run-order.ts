/** Sorts and groups runs as the server does: `core/run_queries/run_table.py`. */

import type { RunCell, RunRow } from "../../types";
import type { SortKey } from "./run-query";

const INFINITE: Record<string, number> = { Infinity, "-Infinity": -Infinity };

/** The number that a value is or that its text says. */
export function numberOf(value: RunCell): number | undefined {
  if (typeof value === "number") return value;
  if (value === null || value.trim() === "") return undefined;
  const number = INFINITE[value] ?? (/^[+-]?[\d.]/.test(value) && !/^[+-]?0[xob]/i.test(value) ? Number(value) : NaN);
  return Number.isNaN(number) ? undefined : number;
}

type Rated = { text: string; number: number; is: 0 | 1 } | undefined;

/** What a value is sorted by: numbers before texts; undefined = it comes last. */
function rated(value: RunCell): Rated {
  if (value === null || value === "NaN") return undefined;
  const number = numberOf(value);
  return number === undefined ? { text: String(value).toLowerCase(), number: 0, is: 1 } : { text: "", number, is: 0 };
}

function compared(a: NonNullable<Rated>, b: NonNullable<Rated>): number {
  if (a.is !== b.is) return a.is - b.is;
  if (a.is === 0) return a.number - b.number;
  return a.text < b.text ? -1 : a.text > b.text ? 1 : 0;
}

/** The rows in an order; runs that are equal keep theirs. columns: the fields of their values. */
export function sortedRuns(runs: RunRow[], columns: string[], keys: SortKey[]): RunRow[] {
  const used = keys.map((key) => ({ at: columns.indexOf(key.field), sign: key.descends ? -1 : 1 })).filter((key) => key.at >= 0);
  if (!used.length) return runs;
  const order = runs.map((run, n) => ({ run, n, by: used.map((key) => rated(run.values[key.at] ?? null)) }));
  order.sort((a, b) => {
    for (let n = 0; n < used.length; n += 1) {
      const [one, other] = [a.by[n], b.by[n]];
      if (!one || !other) {
        if (one !== other) return one ? -1 : 1;
        continue;
      }
      const difference = compared(one, other);
      if (difference) return difference * used[n]!.sign;
    }
    return a.n - b.n;
  });
  return order.map((one) => one.run);
}

export interface Group { value: RunCell; runs: RunRow[] }

/** Runs with the same value of a column, in the order of their values. */
export function groupsOf(runs: RunRow[], at: number): Group[] {
  const groups = new Map<string, Group & { by: Rated }>();
  for (const run of runs) {
    const value = run.values[at] ?? null;
    const by = rated(value);
    const key = by ? `${by.is} ${by.is ? by.text : by.number}` : "";
    const known = groups.get(key);
    if (known) known.runs.push(run);
    else groups.set(key, { value: by ? value : null, runs: [run], by });
  }
  return [...groups.values()].sort((a, b) => (a.by && b.by ? compared(a.by, b.by) : Number(!a.by) - Number(!b.by)));
}

export interface Spread { count: number; mean: number; deviation: number | undefined; common: RunCell }

/** Mean and deviation of the numbers of a column; `common`: the value that all runs have. */
export function spreadOf(runs: RunRow[], at: number): Spread {
  const cells = runs.map((run) => run.values[at] ?? null);
  const numbers = cells.map(numberOf).filter((one): one is number => one !== undefined && Number.isFinite(one));
  const mean = numbers.reduce((sum, one) => sum + one, 0) / numbers.length;
  const squares = numbers.reduce((sum, one) => sum + (one - mean) ** 2, 0);
  const common = cells.every((cell) => cell === cells[0]) ? cells[0] ?? null : null;
  return { count: numbers.length, mean, deviation: numbers.length > 1 ? Math.sqrt(squares / (numbers.length - 1)) : undefined, common };
}
