/** The search in a log: in what a person sees of each line, without the terminal's control sequences. */

import { plain } from "../../parts/ansi";
import type { Pattern } from "./log-pattern";

// eslint-disable-next-line no-control-regex
const HAS_CONTROL = /[\u0000-\u0008\u000b-\u001f\u007f]/;

interface Line { text: string; isGrowing: boolean }

/** A search that goes on: while lines arrive at the end of the same list, it reads these, and those that were growing. */
export class LogSearch {
  private lines: Line[] = [];
  private key = "";
  private seen = 0;
  private growing: number[] = [];
  private hits: number[] = [];

  /** The places of the lines that have the pattern; valid until the next search. undefined: nothing is searched. */
  find(lines: Line[], pattern: Pattern | undefined): number[] {
    const key = pattern?.key ?? "";
    if (lines !== this.lines || key !== this.key) Object.assign(this, { lines, key, seen: 0, growing: [], hits: [] });
    if (!pattern) return this.hits;
    const isHit = (n: number): boolean => pattern.isIn(shownOf(lines[n]!.text));
    for (const n of this.growing) this.put(n, isHit(n));
    for (let n = this.seen; n < lines.length; n += 1) {
      if (isHit(n)) this.hits.push(n);
      if (lines[n]!.isGrowing) this.growing.push(n);
    }
    this.growing = this.growing.filter((n) => lines[n]!.isGrowing);
    this.seen = lines.length;
    return this.hits;
  }

  /** Whether a line that was read before is a hit may have changed. */
  private put(n: number, isHit: boolean): void {
    const at = countUpTo(this.hits, n - 1);
    const wasHit = this.hits[at] === n;
    if (isHit && !wasHit) this.hits.splice(at, 0, n);
    if (!isHit && wasHit) this.hits.splice(at, 1);
  }
}

/** A line as a person sees it. */
export const shownOf = (text: string): string => (HAS_CONTROL.test(text) ? plain(text) : text);

/** How many of the hits are at a place or before it. */
export function countUpTo(hits: number[], place: number): number {
  let [from, to] = [0, hits.length];
  while (from < to) {
    const middle = (from + to) >> 1;
    if (hits[middle]! <= place) from = middle + 1;
    else to = middle;
  }
  return from;
}
