/** The lines of a job's logs, put together from the pieces in which they arrive. */

import type { LogPiece } from "../../types";

export interface LogLine {
  attempt: number;
  round: number;
  node: number;
  /** -1: the node's own log. */
  rank: number;
  /** Of its first byte in its log. */
  offset: number;
  text: string;
  /** When the server received its beginning, in seconds since the epoch; 0 = unknown. */
  at: number;
  /** Whether its end hasn't come: its text changes when it does. */
  isGrowing: boolean;
}

/** dropped: bytes of its line that carriage returns have overwritten, and that aren't kept. isRest: what a line that
 *  was cut has after the cut. */
interface Tail {
  attempt: number; round: number; node: number; rank: number; offset: number; text: string; dropped: number; at: number;
  shown?: LogLine; isRest: boolean;
}

const MAX_LINE = 20_000;
/** Characters; a longer line is cut into several. */

export const addressOf = (line: LogLine): string => `${line.attempt}.${line.round}.${line.node}.${line.rank}.${line.offset}`;

/** The place of the line with an address, or else of the one that has its byte: the first line that was read of a log may
 *  lack its beginning, which comes with what is older. -1: there is none. */
export function placeOf(lines: LogLine[], address: string): number {
  const [attempt, round, node, rank, offset] = address.split(".").map(Number);
  return lines.findLastIndex((line) => line.rank === rank && line.node === node && line.round === round
    && line.attempt === attempt && line.offset <= offset!);
}

export class LogLines {
  lines: LogLine[] = [];
  /** Grows with every change that is not an addition at the end. */
  epoch = 0;
  private readonly tails = new Map<string, Tail>();

  /** Adds pieces in the order of their arrival. */
  add(pieces: LogPiece[]): void {
    for (const piece of pieces) this.addPiece(piece);
  }

  private addPiece(piece: LogPiece): void {
    const key = `${piece.attempt}.${piece.round}.${piece.node}.${piece.rank}`;
    const { attempt, round, node, rank } = piece;
    let tail = this.tails.get(key) ?? { attempt, round, node, rank, offset: piece.offset, text: "", dropped: 0, at: piece.at ?? 0, isRest: false };
    let start = 0;
    for (;;) {
      const end = piece.text.indexOf("\n", start);
      const part = end < 0 ? piece.text.slice(start) : piece.text.slice(start, end);
      tail.at ||= piece.at ?? 0;
      tail.text += part;
      if (tail.text.length >= MAX_LINE) forget(tail);
      if (end < 0 && tail.text.length < MAX_LINE) break;
      this.show(tail, false);
      tail = { ...tail, offset: tail.offset + tail.dropped + bytes(tail.text) + (end < 0 ? 0 : 1), text: "", dropped: 0, at: piece.at ?? 0, shown: undefined, isRest: end < 0 };
      if (end < 0) break;
      start = end + 1;
    }
    if (tail.text) this.show(tail, true);
    else tail.at = 0;
    this.tails.set(key, tail);
  }

  /** Shows a line, also one that is not complete: it gets the rest of its text when that arrives. */
  private show(tail: Tail, isGrowing: boolean): void {
    const { attempt, round, node, rank, offset, at } = tail;
    const text = visible(tail.text);
    if (tail.isRest && !tail.shown && !text) return; // The newline of the line that was cut, and no line.
    if (tail.shown) Object.assign(tail.shown, { text, isGrowing });
    else this.lines.push((tail.shown = { attempt, round, node, rank, offset, text, at, isGrowing }));
  }
}

/** Lets go of what carriage returns have overwritten: a progress bar stays one line, however long it lasts. */
function forget(tail: Tail): void {
  const text = visible(tail.text);
  const end = tail.text.endsWith("\r") ? "\r" : "";
  tail.dropped += bytes(tail.text) - bytes(text) - end.length;
  tail.text = text + end;
}

/** What is left of a line after its carriage returns: a progress bar shows its last state. */
export function visible(text: string): string {
  const ended = text.endsWith("\r") ? text.slice(0, -1) : text;
  const at = ended.lastIndexOf("\r");
  return at < 0 ? ended : ended.slice(at + 1);
}

/** Length in UTF-8. */
export function bytes(text: string): number {
  let count = text.length;
  for (let n = 0; n < text.length; n += 1) {
    const code = text.charCodeAt(n);
    if (code < 0x80) continue;
    if (code < 0x800) count += 1;
    else if (code >= 0xd800 && code < 0xdc00) {
      count += 2;
      n += 1;
    } else count += 2;
  }
  return count;
}

const MAX_END = 12;
/** Lines of a failed rank's log that are shown at once: a traceback mostly fits, and the log below it is still seen. */
const TRACEBACK = /Traceback \(most recent call last\)/;

/** The last lines of a failed rank: its traceback alone where they have one from its beginning. */
export function endOf(tail: string): string {
  const lines = tail.trimEnd().split("\n").slice(-MAX_END);
  const begin = lines.findIndex((line) => TRACEBACK.test(line));
  return lines.slice(Math.max(begin, 0)).join("\n");
}

/** The line at which a rank failed: the last of its output that says something, by the verdict's own tail. */
export function failingLine(lines: LogLine[], rank: number, tail: string): number {
  const wanted = tail.split("\n").map((line) => visible(line).trim()).filter(Boolean).at(-1);
  let last = -1;
  for (let n = lines.length - 1; n >= 0; n -= 1) {
    const line = lines[n]!;
    if (line.rank !== rank || !line.text.trim()) continue;
    if (last < 0) last = n;
    if (wanted && line.text.trim() === wanted) return n;
  }
  return last;
}
