/** The values of a chart as a table: what its picture says to those who can't see it. */

import { duration, exact, number, whole } from "../format";
import type { ChartLine, XKind } from "./chart";
import type { Mark } from "./honest-curves";

const MAX_ROWS = 50;
const DIGITS = 6;

export interface TableOf { lines: ChartLine[]; marks: Mark[]; isTime: boolean; xKind: XKind; label: string }

/** heads: the first is that of x. */
export interface ChartRows { heads: string[]; rows: string[][]; of: number }

const X_NAMES: Record<XKind, string> = { step: "step", seconds: "after", number: "x" };

/** At most 50 rows, evenly among the points, the first and the last one included. */
export function rowsOf({ lines, marks, isTime, xKind }: Omit<TableOf, "label">): ChartRows {
  // Of a smoothed line, what was logged.
  const shown = lines.filter((line) => line.isPale || !lines.some((one) => one.isPale && one.label === line.label));
  const columns = shown.map((line) => new Map(line.x.map((x, n) => [x, line.y[n] ?? null])));
  const special = new Map(shown.length === 1 ? marks.map((mark) => [mark.x, mark.value]) : []);
  const all = [...new Set([...columns.flatMap((column) => [...column.keys()]), ...special.keys()])].sort((a, b) => a - b);
  const chosen = all.length <= MAX_ROWS ? all : Array.from({ length: MAX_ROWS }, (_, n) => all[Math.round((n * (all.length - 1)) / (MAX_ROWS - 1))]!);
  const xText = (x: number): string => (isTime ? exact(x * 1000) : xKind === "step" ? whole(x) : xKind === "seconds" ? duration(x) : number(x, DIGITS));
  return {
    heads: [isTime ? "time" : X_NAMES[xKind], ...shown.map((line) => line.label)],
    rows: chosen.map((x) => [xText(x), ...columns.map((column) => number(column.get(x) ?? special.get(x), DIGITS))]),
    of: all.length,
  };
}

export function ChartTable(of: TableOf) {
  const { heads, rows, of: count } = rowsOf(of);
  return (
    <div class="scroll chart-rows" tabIndex={0} role="region" aria-label={`Values of ${of.label}`}>
      <table class="plain">
        <thead><tr>{heads.map((head, n) => <th key={n} scope="col" class={n ? "right" : ""}>{head}</th>)}</tr></thead>
        <tbody>
          {rows.map((row, n) => <tr key={n}>{row.map((cell, at) => (at ? <td key={at} class="right number">{cell}</td> : <th key={at} scope="row" class="number">{cell}</th>))}</tr>)}
        </tbody>
      </table>
      {count > rows.length && <p class="muted chart-note">{rows.length} of {whole(count)} points</p>}
    </div>
  );
}
