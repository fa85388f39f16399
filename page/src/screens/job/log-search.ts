/** The search in a log: in what a person sees of each line, without the terminal's control sequences. */

import { plain } from "../../parts/ansi";

// eslint-disable-next-line no-control-regex
const HAS_CONTROL = /[\u0000-\u0008\u000b-\u001f\u007f]/;

interface Line { text: string; isGrowing: boolean }

/** A search that goes on: while lines arrive at the end of the same list, it reads these, and those that were growing. */
export class LogSearch {
  private lines: Line[] = [];
  private text = "";
  private seen = 0;
  private growing: number[] = [];
  private hits: number[] = [];

  /** The places of the lines that have the text, in any case of letters; valid until the next search. */
  find(lines: Line[], text: string): number[] {
    if (lines !== this.lines || text !== this.text) Object.assign(this, { lines, text, seen: 0, growing: [], hits: [] });
    if (!text) return this.hits;
    const wanted = text.toLowerCase();
    const isHit = (n: number): boolean => shownOf(lines[n]!.text).toLowerCase().includes(wanted);
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

const shownOf = (text: string): string => (HAS_CONTROL.test(text) ? plain(text) : text);

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
