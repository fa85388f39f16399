/** What a chart must not hide: outliers beyond its range, values that are no numbers, ranks that differ. */

import { counted, number, whole } from "../format";

export type Value = number | string | null;
/** A point of a curve as the API gives it: `NaN`, `Infinity` and `-Infinity` are strings. */
export interface CurvePoints { label: string; x: number[]; values: Value[] }

/** x: where it stands. value: NaN, Infinity or -Infinity. */
export interface Mark { x: number; value: string }

const MIN_POINTS = 50;
/** With fewer points none of them is an outlier. */
const FULL_SHARE = 0.1;
/** The share of a chart's height below which most of its points must not be pressed together. */
const LOW = 0.01;
const MIN_RANKS = 3;

/** The range that 98 % of the values are in, where all of them would press it flat; undefined = all are drawn. */
export function centralRange(lines: CurvePoints[]): [number, number] | undefined {
  const values = Float64Array.from(lines.flatMap((line) => line.values.filter((one): one is number => typeof one === "number"))).sort();
  if (values.length < MIN_POINTS) return undefined;
  const cut = Math.max(1, Math.floor(values.length * LOW));
  const [low, high] = [values[cut]!, values[values.length - 1 - cut]!];
  const height = values[values.length - 1]! - values[0]!;
  if (!(high > low) || high - low >= height * FULL_SHARE) return undefined;
  // What is just beyond the range is drawn, too: only what would press the others flat is left out.
  const margin = high - low;
  const inside = values.filter((one) => one >= low - margin && one <= high + margin);
  return [inside[0]!, inside[inside.length - 1]!];
}

/** Says which points are beyond the range; "" = none. */
export function outliersText(lines: CurvePoints[], [low, high]: [number, number], positionOf: (x: number) => string): string {
  const beyond = (is: (value: number) => boolean, isWorse: (a: number, b: number) => boolean, side: string) => {
    const points = lines.flatMap((line) => line.values.flatMap((value, n) => (typeof value === "number" && is(value) ? [{ x: line.x[n]!, value }] : [])));
    if (!points.length) return "";
    const worst = points.reduce((one, other) => (isWorse(other.value, one.value) ? other : one));
    const extent = points.length === 1 ? "of" : "up to";
    return `${counted(points.length, "point")} ${extent} ${number(worst.value)} ${positionOf(worst.x)} ${points.length === 1 ? "is" : "are"} ${side}`;
  };
  return [beyond((value) => value > high, (a, b) => a > b, "above"), beyond((value) => value < low, (a, b) => a < b, "below").replace("up to", "down to")]
    .filter(Boolean).join("; ");
}

/** The points that are no numbers. */
export const marksOf = (lines: CurvePoints[]): Mark[] =>
  lines.flatMap((line) => line.values.flatMap((value, n) => (typeof value === "string" ? [{ x: line.x[n]!, value }] : [])));

/** Says which values are no numbers, and where each kind begins; "" = none. */
export function marksText(marks: Mark[], positionOf: (x: number) => string): string {
  const kinds = new Map<string, number[]>();
  for (const mark of marks) kinds.set(mark.value, [...(kinds.get(mark.value) ?? []), mark.x]);
  return [...kinds].map(([value, xs]) =>
    xs.length === 1 ? `${value} ${positionOf(xs[0]!)}` : `${value} at ${whole(xs.length)} points, first ${positionOf(Math.min(...xs))}`).join("; ");
}

export interface Group { mean: CurvePoints; low: CurvePoints; high: CurvePoints; isEqual: boolean }

/** Three curves or more as their mean, lowest and highest value at each x; undefined = there are fewer, or they share no x. */
export function groupOf(lines: CurvePoints[], noun: string): Group | undefined {
  if (lines.length < MIN_RANKS) return undefined;
  // The last value of each curve at an x: a job that was restarted logs steps again.
  const at = new Map<number, Map<number, number>>();
  lines.forEach((line, index) => line.values.forEach((value, n) => {
    if (typeof value !== "number") return;
    const values = at.get(line.x[n]!);
    if (values) values.set(index, value);
    else at.set(line.x[n]!, new Map([[index, value]]));
  }));
  // An x at which most curves have no point would draw the mean as a saw.
  const x = [...at.keys()].filter((one) => at.get(one)!.size * 2 > lines.length).sort((a, b) => a - b);
  if (!x.length) return undefined;
  const line = (label: string, of: (values: number[]) => number): CurvePoints => ({ label, x, values: x.map((one) => of([...at.get(one)!.values()])) });
  const [low, high] = [line("lowest", (values) => Math.min(...values)), line("highest", (values) => Math.max(...values))];
  const isEqual = x.every((_, n) => low.values[n] === high.values[n]);
  const name = `${whole(lines.length)} ${noun}`;
  return { mean: line(isEqual ? `${name} agree` : `mean of ${name}`, (values) => values.reduce((sum, one) => sum + one, 0) / values.length), low, high, isEqual };
}

/** The points that a logarithmic axis has no place for, said; "" = none. */
export function belowLogText(lines: CurvePoints[]): string {
  const count = lines.reduce((sum, line) => sum + line.values.filter((value) => typeof value === "number" && value <= 0).length, 0);
  return count ? `${counted(count, "point")} ≤ 0 can't be shown on a logarithmic axis` : "";
}
