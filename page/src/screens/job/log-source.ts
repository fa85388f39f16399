/** Where the lines of a job's logs come from: first the end of what is stored, then what arrives, and what is older. */

import { ApiError, get, segment, type Query } from "../../api";
import { stream } from "../../stream";
import type { LogPage, LogPiece } from "../../types";
import { LogLines } from "./log-lines";

const FIRST_BYTES = 64 << 10;
/** About as much text as is read when the logs are opened. */
const PAGE_BYTES = 1 << 20;
const MAX_TEXT = 256 << 20;
/** Characters that a browser is asked to keep. */
const SOUGHT = 4;
/** Of that, a fourth is read unasked. */
const FIRST_PIECES = 4;
/** A piece has up to a quarter of a mebibyte: how many make a screen is known once some are read. */

/** The end of a job's logs, as it is read first. */
export const endOf = (job: string): [string, Query] => [`/jobs/${segment(job)}/logs`, { tail: FIRST_BYTES }];

export class LogSource {
  log = new LogLines();
  isLoading = true;
  /** Why the last reading came to nothing; what arrives is shown nevertheless. */
  error: ApiError | undefined;
  isClosed = false;
  /** The position up to which pieces hold what isn't here; the first one here may be the rest of such a piece. */
  first = 0;
  private pieces: LogPiece[] = [];
  private end = 0;
  private size = 0;
  private isOpened = false;
  private hasLetGo = false;
  private readonly unsubscribe: () => void;
  private frame = 0;
  private arrived: LogPiece[] = [];

  constructor(
    private readonly job: string,
    private readonly changed: () => void,
    private readonly maxText = MAX_TEXT,
  ) {
    this.unsubscribe = stream.onJob(job, "log", (piece) => this.arrive(piece));
  }

  close(): void {
    this.isClosed = true;
    this.unsubscribe();
    clearTimeout(this.frame);
  }

  /** Reads the end of the logs; the stream goes on behind it. Whether it could be read. */
  async open(): Promise<boolean> {
    await this.load(async () => {
      const page = await get<LogPage>(...endOf(this.job));
      this.end = page.end;
      await this.take(page.pieces, page.first);
      this.isOpened = true;
    });
    return this.isOpened;
  }

  /** Once the server is back, what was refused may be asked for again. Whether the end of the logs is still to be read. */
  forgive(): boolean {
    if (!this.error || this.isLoading) return false;
    if (!this.isOpened) return true;
    this.error = undefined;
    this.changed();
    return false;
  }

  /** Whether as much is here as a browser is asked to keep. */
  get isFull(): boolean {
    return this.size >= this.maxText;
  }

  /** Whether older lines may be read that nobody has asked for: not after a refusal, nor those that were let go, and not as
   *  much as would make a browser slow. */
  get canSeek(): boolean {
    return this.first > 0 && !this.error && !this.hasLetGo && this.size < this.maxText / SOUGHT;
  }

  private async load(read: () => Promise<void>): Promise<void> {
    this.isLoading = true;
    this.error = undefined;
    this.changed();
    try {
      await read();
    } catch (error) {
      this.error = error instanceof ApiError ? error : new ApiError(0, String(error));
    }
    this.isLoading = false;
    if (this.isClosed) return;
    if (this.arrived.length) this.flush();
    this.changed();
  }

  get position(): number {
    return this.end;
  }

  /** Reads as much again as is here, of what is older; all of it where `isAll`. */
  earlier(isAll = false): Promise<void> {
    return this.readBack(isAll ? this.maxText : this.size, this.maxText);
  }

  /** The same unasked, where a screen has too few lines, or `isAll` where the line of an address isn't among them. */
  async seek(isAll = false): Promise<void> {
    if (isAll && !this.error && !this.hasLetGo) await this.earlier(true);
    else if (this.canSeek) await this.readBack(this.size, this.maxText / SOUGHT);
  }

  /** Reads about so many characters before those that are here, until as many as `limit` are. */
  private async readBack(wanted: number, limit: number): Promise<void> {
    if (this.isLoading || this.first === 0 || this.isFull) return;
    await this.load(async () => {
      const known = this.first;
      const [older, first] = await this.before(known, Math.min(limit - this.size, Math.max(PAGE_BYTES, wanted)));
      await this.take([...older, ...this.pieces.filter((piece) => piece.position > known)], first);
    });
  }

  /** Lets go of the oldest half: a log that is watched for days would fill the browser's memory. */
  private async shorten(): Promise<void> {
    this.hasLetGo = true;
    await this.load(async () => {
      let n = 0;
      for (let size = this.size; size > this.maxText / 2 && n < this.pieces.length - 1; n += 1) size -= this.pieces[n]!.text.length;
      await this.take(this.pieces.slice(n), n ? this.pieces[n - 1]!.position : this.first);
    });
  }

  /** About so many characters before a position, and the position before the first of their pieces. */
  private async before(end: number, wanted: number): Promise<[LogPiece[], number]> {
    let [from, span, length] = [end, FIRST_PIECES, 0];
    let pieces: LogPiece[] = [];
    while (from > 0 && length < wanted) {
      const start = Math.max(0, from - span);
      const found = await this.range(start, from);
      pieces = [...found, ...pieces];
      length += textLength(found);
      from = start;
      const probable = Math.ceil((end - from) * (wanted / Math.max(length, 1) - 1));
      span = Math.min(Math.max(probable, FIRST_PIECES), span * 16);
    }
    return [pieces, from];
  }

  private async take(pieces: LogPiece[], first: number): Promise<void> {
    const log = new LogLines();
    log.epoch = this.log.epoch + 1;
    for (const [n, part] of partsOf(pieces).entries()) {
      if (n > 0) await new Promise((resolve) => setTimeout(resolve));
      log.add(part);
    }
    const fresh = this.arrived.filter((piece) => piece.position > (pieces.at(-1)?.position ?? 0));
    log.add(fresh);
    this.pieces = [...pieces, ...fresh];
    this.arrived = [];
    this.first = first;
    this.size = textLength(this.pieces);
    this.log = log;
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
    this.frame = setTimeout(() => {
      this.frame = 0;
      if (this.isLoading) return;
      this.flush();
      this.changed();
      if (this.size > this.maxText) void this.shorten();
    }, 100);
  }

  /** Shows what has arrived. */
  private flush(): void {
    const last = this.pieces.at(-1)?.position ?? 0;
    const fresh = this.arrived.filter((one) => one.position > last);
    this.arrived = [];
    this.pieces.push(...fresh);
    this.size += textLength(fresh);
    this.log.add(fresh);
  }
}

/** Pieces of about a mebibyte together: a browser that takes one in between two frames stays quick. */
function partsOf(pieces: LogPiece[]): LogPiece[][] {
  const parts: LogPiece[][] = [];
  let length = PAGE_BYTES;
  for (const piece of pieces) {
    if (length >= PAGE_BYTES) {
      parts.push([]);
      length = 0;
    }
    parts.at(-1)!.push(piece);
    length += piece.text.length;
  }
  return parts;
}

const textLength = (pieces: LogPiece[]): number => pieces.reduce((sum, piece) => sum + piece.text.length, 0);
