/** The page's one stream of events: changes of all jobs, and everything of the job that is on the screen. */

import { address, ApiError, get, segment } from "./api";
import type { Job, JobChanges, LogPiece, StoryLine } from "./types";

export interface Events {
  jobs: JobChanges;
  story: StoryLine;
  state: Job;
  log: LogPiece;
  end: { state: string; exit_code: number | null };
  /** The stream has been opened, for the first time or again: what was read before may be old. */
  again: null;
  /** Whether the stream is open. */
  open: boolean;
}

/** The events of the job that is followed. */
export type JobEvent = "story" | "state" | "log" | "end";

type Listener<K extends keyof Events> = (event: Events[K]) => void;

const KINDS = ["jobs", "story", "state", "log", "end"] as const;
const RETRY_MS = 2000;

class Stream {
  isOpen = false;
  private wasOpen = false;
  /** Whether it stays open while the page is hidden. */
  private staysOpen = false;
  private source: EventSource | undefined;
  private job = "";
  private position = 0;
  private story = 0;
  private hasLogs = true;
  private timer = 0;
  private readonly listeners = new Map<string, Set<(event: never) => void>>();

  on<K extends keyof Events>(kind: K, listener: Listener<K>): () => void {
    const all = this.listeners.get(kind) ?? new Set();
    this.listeners.set(kind, all);
    all.add(listener as (event: never) => void);
    return () => void all.delete(listener as (event: never) => void);
  }

  /** The same for a job's own events: those of another job that is followed meanwhile aren't heard. */
  onJob<K extends JobEvent>(job: string, kind: K, listener: Listener<K>): () => void {
    return this.on(kind, (event) => job === this.job && listener(event));
  }

  /** isJobNext: whether a job will be followed at once, so that what is opened now would be closed again. */
  start(isJobNext = false): void {
    document.addEventListener("visibilitychange", () => (this.isUnseen ? this.rest() : this.open()));
    addEventListener("focus", () => this.open());
    if (isJobNext) this.timer = window.setTimeout(() => this.open(), RETRY_MS);
    else this.open();
  }

  /** Whether it is to stay open while the page is hidden: desktop notices need it. */
  stayOpen(stays: boolean): void {
    this.staysOpen = stays;
    if (!document.hidden) return;
    if (stays) this.open();
    else this.rest();
  }

  /** Follows a job behind what was read of it already; "" = none. */
  follow(job: string, position = 0, story = 0, hasLogs = true): void {
    if (job === this.job && job === "") return this.open();
    [this.job, this.position, this.story, this.hasLogs] = [job, position, story, hasLogs];
    this.close();
    this.open();
  }

  /** Whether it was open and isn't: the server may be away. */
  get isLost(): boolean {
    return this.wasOpen && !this.isOpen;
  }

  private get isUnseen(): boolean {
    return document.hidden && !this.staysOpen;
  }

  private open(): void {
    clearTimeout(this.timer);
    if (this.source || this.isUnseen) return;
    const query = this.job ? { job: this.job, after: this.position, story: this.story, logs: this.hasLogs } : {};
    const source = new EventSource(address("/events", query));
    this.source = source;
    let wasOpen = false;
    source.onopen = () => {
      wasOpen = true;
      this.say(true);
      this.emit("again", null);
    };
    source.onerror = () => {
      this.rest();
      this.timer = window.setTimeout(() => this.open(), RETRY_MS);
      if (!wasOpen) void this.ask(this.job);
    };
    for (const kind of KINDS) {
      source.addEventListener(kind, (event) => {
        const [position, story] = event.lastEventId.split(".");
        if (story !== undefined) [this.position, this.story] = [Number(position), Number(story)];
        this.emit(kind, JSON.parse(event.data));
      });
    }
  }

  /** Finds out why a stream isn't opened, which the browser doesn't tell: an ended session, or a job that was deleted. */
  private async ask(job: string): Promise<void> {
    try {
      await get(job ? `/jobs/${segment(job)}` : "/page/session");
    } catch (error) {
      if (!(error instanceof ApiError)) return;
      // Without a session nothing will come until the tab is looked at again: an idle server may stop.
      if (error.status === 401) clearTimeout(this.timer);
      if (!job || job !== this.job || error.status !== 404) return;
      this.job = "";
      this.emit("jobs", { jobs: [], removed: [job], is_partial: false });
    }
  }

  private close(): void {
    this.source?.close();
    this.source = undefined;
  }

  /** Closes until it is opened again: for a hidden page, a server that doesn't answer, and a session that has ended. */
  rest(): void {
    this.close();
    this.say(false);
  }

  private say(isOpen: boolean): void {
    this.isOpen = isOpen;
    this.wasOpen ||= isOpen;
    this.emit("open", isOpen);
  }

  private emit<K extends keyof Events>(kind: K, event: Events[K]): void {
    for (const listener of [...(this.listeners.get(kind) ?? [])]) {
      try {
        (listener as Listener<K>)(event);
      } catch (error) {
        reportError(error); // The others hear the event nevertheless.
      }
    }
  }
}

export const stream = new Stream();
