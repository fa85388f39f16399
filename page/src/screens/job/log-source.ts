/** Where the lines of a job's logs come from: first the end of what is stored, then what arrives, and what is older. */

import { get, segment } from "../../api";
import { stream } from "../../stream";
import type { LogPage, LogPiece } from "../../types";
import { LogLines } from "./log-lines";

const FIRST_BYTES = 512 << 10;
/** About as much text as is read when the logs are opened. */
const PAGE_BYTES = 1 << 20;
const MAX_TEXT = 256 << 20;
/** Characters that a browser is asked to keep. */

export class LogSource {
  log = new LogLines();
  isLoading = true;
  /** The position before the first piece that is here; 0: everything is here. */
  first = 0;
  private pieces: LogPiece[] = [];
  private end = 0;
  private size = 0;
  private readonly unsubscribe: () => void;
  private frame = 0;
  private arrived: LogPiece[] = [];

  constructor(
    private readonly job: string,
    private readonly changed: () => void,
  ) {
    this.unsubscribe = stream.on("log", (piece) => this.arrive(piece));
  }

  close(): void {
    this.unsubscribe();
    clearTimeout(this.frame);
  }

  /** Reads the end of the logs; the stream goes on behind it. */
  async open(): Promise<void> {
    const probe = await this.read(0, 1);
    this.end = probe.end;
    let span = 64;
    let pieces: LogPiece[] = [];
    let from = this.end;
    while (from > 0 && textLength(pieces) < FIRST_BYTES) {
      const start = Math.max(0, from - span);
      pieces = [...(await this.range(start, from)), ...pieces];
      from = start;
      span *= 2;
    }
    this.take(pieces, from);
    this.isLoading = false;
    this.changed();
  }

  get position(): number {
    return this.end;
  }

  /** Reads about a mebibyte that is older than what is here; all of it where `isAll`. */
  async earlier(isAll = false): Promise<void> {
    if (this.isLoading || this.first === 0) return;
    this.isLoading = true;
    this.changed();
    let [from, span, older] = [this.first, 256, [] as LogPiece[]];
    while (from > 0 && (isAll || textLength(older) < PAGE_BYTES) && this.size + textLength(older) < MAX_TEXT) {
      const start = Math.max(0, from - span);
      older = [...(await this.range(start, from)), ...older];
      from = start;
      span *= 2;
    }
    this.take([...older, ...this.pieces], from);
    this.isLoading = false;
    this.changed();
  }

  private take(pieces: LogPiece[], first: number): void {
    this.pieces = [...pieces, ...this.arrived.filter((piece) => piece.position > (pieces.at(-1)?.position ?? 0))];
    this.arrived = [];
    this.first = first;
    this.size = textLength(this.pieces);
    const epoch = this.log.epoch + 1;
    this.log = new LogLines();
    this.log.epoch = epoch;
    this.log.add(this.pieces);
  }

  private async range(after: number, end: number): Promise<LogPiece[]> {
    const found: LogPiece[] = [];
    let at = after;
    while (at < end) {
      const page = await this.read(at, PAGE_BYTES);
      found.push(...page.pieces.filter((piece) => piece.position <= end));
      if (page.after <= at) break;
      at = page.after;
    }
    return found;
  }

  private read(after: number, limit: number): Promise<LogPage> {
    return get<LogPage>(`/jobs/${segment(this.job)}/logs`, { after, limit });
  }

  private arrive(piece: LogPiece): void {
    this.arrived.push(piece);
    if (this.isLoading || this.frame) return;
    this.frame = window.setTimeout(() => {
      this.frame = 0;
      if (this.isLoading) return;
      const last = this.pieces.at(-1)?.position ?? 0;
      const fresh = this.arrived.filter((one) => one.position > last);
      this.arrived = [];
      this.pieces.push(...fresh);
      this.size += textLength(fresh);
      this.log.add(fresh);
      this.changed();
    }, 100);
  }
}

const textLength = (pieces: LogPiece[]): number => pieces.reduce((sum, piece) => sum + piece.text.length, 0);
