/** Time, answers of the server, and events, for components. */

import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError, get, noteAnswer, serverNow, session, settled, type Query } from "./api";
import { stream, type Events, type JobEvent } from "./stream";
import type { Session } from "./types";

const tickers = new Set<() => void>();
setInterval(() => tickers.forEach((tick) => tick()), 1000);

/** The time in milliseconds by the server's clock, new each second while `isLive`. */
export function useNow(isLive = true): number {
  const [now, setNow] = useState(serverNow);
  useEffect(() => {
    if (!isLive) return;
    const tick = () => setNow(serverNow());
    tickers.add(tick);
    return () => void tickers.delete(tick);
  }, [isLive]);
  return now;
}

export interface Answer<T> {
  value: T | undefined;
  error: ApiError | undefined;
  /** When the value was asked for: events that came later are newer than it. */
  asked: number;
  reload: () => void;
}

let moments = 0;
/** The order of requests and events: each moment is later than those before. */
export const moment = (): number => (moments += 1);

/** What the server answers; the earlier answer stays while a newer one is on its way.
 *
 * isLate: asked for only once the screen has its first answer.
 */
export function useAnswer<T>(path: string | undefined, query: Query = {}, isLate = false): Answer<T> {
  const key = path === undefined ? "" : JSON.stringify([path, query]);
  return useReading(key, (signal) => get<T>(path!, query, signal), isLate);
}

export interface Reading<T> { key: string; asked: number; value?: T | undefined; error?: ApiError | undefined }

/** The same for what takes several requests. key: of what is read; "" = nothing.
 *
 * A reload while a request is on its way waits for that one: on a slow server, requests that overtake each other would
 * never come to an end. What was refused is asked for again once the server is back.
 * kept: what was read before, shown until it is read again.
 */
export function useReading<T>(key: string, read: (signal: AbortSignal) => Promise<T>, isLate = false, kept?: Reading<T>): Answer<T> {
  const [state, setState] = useState<Reading<T>>(kept ?? { key: "", asked: 0 });
  const [turn, setTurn] = useState(0);
  const request = useRef({ isOpen: false, isWanted: false });
  useEffect(() => {
    if (!key) return;
    const control = new AbortController();
    const own = { isOpen: true, isWanted: false };
    request.current = own;
    const ended = () => {
      own.isOpen = false;
      if (own.isWanted && !control.signal.aborted) setTurn((n) => n + 1);
    };
    let asked = 0;
    const ask = () => {
      asked = moment();
      return read(control.signal);
    };
    (isLate ? settled.then(ask) : ask()).then(
      (value) => {
        if (!control.signal.aborted) setState({ key, asked, value });
        if (!isLate) noteAnswer();
        ended();
      },
      (error) => {
        if (!control.signal.aborted) setState((before) => ({ ...(before.key === key ? before : { key, asked }), error }));
        ended();
      },
    );
    return () => control.abort();
  }, [key, turn]);
  const reload = () => {
    if (request.current.isOpen) request.current.isWanted = true;
    else setTurn((n) => n + 1);
  };
  const isOwn = state.key === key;
  useEvents("again", () => isOwn && state.error && reload());
  return { value: isOwn ? state.value : undefined, error: isOwn ? state.error : undefined, asked: isOwn ? state.asked : 0, reload };
}

const SCREENFUL = 40;
/** Rows that a high window shows. */

/** How many of a list's rows are drawn: a screenful at first, all of them behind the next frame. isKnown: all at once. */
export function useGradual(count: number, isKnown = false): number {
  const [isWhole, setWhole] = useState(isKnown || count <= SCREENFUL);
  useEffect(() => setWhole(true), []);
  return isWhole ? count : Math.min(count, SCREENFUL);
}

/** The role of the page's person; undefined until it is known. */
export function useRole(): Session["role"] | undefined {
  const [role, setRole] = useState<Session["role"]>();
  const ask = () => void settled.then(session).then((one) => setRole(one.role), () => undefined);
  useEffect(ask, []);
  useEvents("again", ask);
  return role;
}

/** Whether the page's person may act; readers only look. */
export function useMayAct(): boolean {
  const role = useRole();
  return role !== undefined && role !== "reader";
}

/** Calls `listener` for each event of the page's stream. */
export function useEvents<K extends keyof Events>(kind: K, listener: (event: Events[K]) => void): void {
  const latest = useRef(listener);
  latest.current = listener;
  useEffect(() => stream.on(kind, (event) => latest.current(event)), [kind]);
}

/** Calls `listener` for each event of a job while the stream follows it. */
export function useJobEvents<K extends JobEvent>(job: string, kind: K, listener: (event: Events[K]) => void): void {
  const latest = useRef(listener);
  latest.current = listener;
  useEffect(() => stream.onJob(job, kind, (event) => latest.current(event)), [job, kind]);
}

/** Calls `action` when a value changes; not for the first one. */
export function useChange(value: unknown, action: () => void): void {
  const known = useRef(value);
  useEffect(() => {
    if (known.current === value) return;
    known.current = value;
    action();
  }, [value]);
}

/** Calls `action` every `interval` milliseconds while the page is seen, and when it is seen again.
 *
 * A server stops when nothing is asked of it for long: a tab that was forgotten in the background must not keep it.
 */
export function useInterval(action: () => void, interval: number): void {
  const latest = useRef(action);
  latest.current = action;
  useEffect(() => {
    const tick = () => document.hidden || latest.current();
    const timer = setInterval(tick, interval);
    document.addEventListener("visibilitychange", tick);
    return () => {
      clearInterval(timer);
      document.removeEventListener("visibilitychange", tick);
    };
  }, [interval]);
}

/** Calls `action` at most once in `interval` milliseconds, and once after the last call. */
export function useThrottled(action: () => void, interval: number): () => void {
  const latest = useRef(action);
  latest.current = action;
  const timer = useRef(0);
  useEffect(() => () => clearTimeout(timer.current), []);
  return () => {
    if (timer.current) return;
    timer.current = window.setTimeout(() => {
      timer.current = 0;
      latest.current();
    }, interval);
  };
}
