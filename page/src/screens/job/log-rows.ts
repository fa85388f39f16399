/** The rows in which lines are shown: a line each, or as many as a wrapped line takes. */

import { plain } from "../../parts/ansi";
import { countUpTo } from "./log-search";
import type { LogLine } from "./log-lines";

export interface Rows {
  length: number;
  /** The place of the line of a row. */
  lineOf: (row: number) => number;
  /** The first row of a line. */
  rowOf: (line: number) => number;
  /** The characters of its line that a row has; undefined = all. */
  partOf: (row: number) => [number, number] | undefined;
}

export const linesAsRows = (lines: LogLine[]): Rows =>
  ({ length: lines.length, lineOf: (row) => row, rowOf: (line) => line, partOf: () => undefined });

/** Lines as they are wrapped at a number of characters; those that come are added to those that were counted. */
export class WrappedRows implements Rows {
  /** The first row of each line. */
  private starts: number[] = [];
  private end = 0;
  private growing = Number.POSITIVE_INFINITY;

  constructor(private readonly lines: LogLine[], private readonly columns: number) {}

  get length(): number {
    return this.end;
  }

  /** Counts the lines that have come, and those that have grown. */
  update(): this {
    const from = Math.min(this.growing, this.starts.length);
    if (from < this.starts.length) this.end = this.starts[from]!;
    this.starts.length = from;
    this.growing = Number.POSITIVE_INFINITY;
    for (let n = from; n < this.lines.length; n += 1) {
      const line = this.lines[n]!;
      this.starts.push(this.end);
      this.end += Math.max(1, Math.ceil(lengthOf(line.text) / this.columns));
      if (line.isGrowing) this.growing = Math.min(this.growing, n);
    }
    return this;
  }

  lineOf(row: number): number {
    return Math.max(0, countUpTo(this.starts, row) - 1);
  }

  rowOf(line: number): number {
    return this.starts[line] ?? this.end;
  }

  partOf(row: number): [number, number] {
    const from = (row - this.rowOf(this.lineOf(row))) * this.columns;
    return [from, from + this.columns];
  }
}

// eslint-disable-next-line no-control-regex
const HAS_CONTROL = /[\u0000-\u0008\u000b-\u001f\u007f]/;

const lengthOf = (text: string): number => (HAS_CONTROL.test(text) ? plain(text).length : text.length);
