/** Time, answers of the server, and events, for components. */

import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError, get, noteAnswer, session, settled, type Query } from "./api";
import { stream, type Events } from "./stream";

const tickers = new Set<() => void>();
setInterval(() => tickers.forEach((tick) => tick()), 1000);

/** The time in milliseconds, new each second while `isLive`. */
export function useNow(isLive = true): number {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    if (!isLive) return;
    const tick = () => setNow(Date.now());
    tickers.add(tick);
    return () => void tickers.delete(tick);
  }, [isLive]);
  return now;
}

export interface Answer<T> {
  value: T | undefined;
  error: ApiError | undefined;
  reload: () => void;
}

/** What the server answers; the earlier answer stays while a newer one is on its way.
 *
 * isLate: asked for only once the screen has its first answer.
 * A reload while a request is on its way waits for that one: on a slow server, requests that overtake each other would
 * never come to an end.
 */
export function useAnswer<T>(path: string | undefined, query: Query = {}, isLate = false): Answer<T> {
  const key = path === undefined ? "" : JSON.stringify([path, query]);
  const [state, setState] = useState<{ key: string; value?: T | undefined; error?: ApiError | undefined }>({ key: "" });
  const [turn, setTurn] = useState(0);
  const request = useRef({ isOpen: false, isWanted: false });
  useEffect(() => {
    if (path === undefined) return;
    const control = new AbortController();
    const own = { isOpen: true, isWanted: false };
    request.current = own;
    const ended = () => {
      own.isOpen = false;
      if (own.isWanted && !control.signal.aborted) setTurn((n) => n + 1);
    };
    const ask = () => get<T>(path, query, control.signal);
    (isLate ? settled.then(ask) : ask()).then(
      (value) => {
        if (!control.signal.aborted) setState({ key, value });
        if (!isLate) noteAnswer();
        ended();
      },
      (error) => {
        if (!control.signal.aborted) setState((before) => ({ key, error, value: before.key === key ? before.value : undefined }));
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
  return { value: isOwn ? state.value : undefined, error: isOwn ? state.error : undefined, reload };
}

const SCREENFUL = 40;
/** Rows that a high window shows. */

/** How many of a list's rows are drawn: a screenful at first, all of them behind the next frame. */
export function useGradual(count: number): number {
  const [isWhole, setWhole] = useState(count <= SCREENFUL);
  useEffect(() => setWhole(true), []);
  return isWhole ? count : Math.min(count, SCREENFUL);
}

/** Whether the page's person may act; readers only look. */
export function useMayAct(): boolean {
  const [mayAct, setMayAct] = useState(false);
  useEffect(() => {
    settled.then(session).then((one) => setMayAct(one.role !== "reader"), () => undefined);
  }, []);
  return mayAct;
}

/** Calls `listener` for each event of the page's stream. */
export function useEvents<K extends keyof Events>(kind: K, listener: (event: Events[K]) => void): void {
  const latest = useRef(listener);
  latest.current = listener;
  useEffect(() => stream.on(kind, (event) => latest.current(event)), [kind]);
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
