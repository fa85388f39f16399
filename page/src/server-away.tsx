/** Across the page, while the server doesn't answer: why that may be, and that the page goes on by itself. */

import { useEffect, useRef, useState } from "preact/hooks";
import { session } from "./api";
import { duration } from "./format";
import { useEvents } from "./hooks";
import { stream } from "./stream";

const PATIENCE_MS = 1500;
/** A server that is replaced, and a stream that is opened again, are back before. */

export function ServerAway() {
  const [isAway, setAway] = useState(false);
  const [idleStop, setIdleStop] = useState(0);
  const timer = useRef(0);
  const hidden = useHiddenTime();
  const wasHidden = useRef(0);
  useEvents("open", (isOpen) => {
    clearTimeout(timer.current);
    if (isOpen) return setAway(false);
    wasHidden.current = hidden.current;
    if (!document.hidden) timer.current = window.setTimeout(() => setAway(!stream.isOpen && !document.hidden), PATIENCE_MS);
  });
  useEvents("again", () => void session().then((one) => setIdleStop(one.idle_stop_s ?? 0), () => undefined));
  if (!isAway) return null;
  const isIdle = idleStop > 0 && wasHidden.current >= idleStop * 1000;
  return (
    <p class="away" role="alert">
      {isIdle ? `The server has stopped (idle for ${minutesOf(idleStop)}).` : "The server does not answer."}{" "}
      <code>drumbeat ui</code> starts it; this page goes on by itself.
    </p>
  );
}

const minutesOf = (seconds: number): string => (seconds % 60 ? duration(seconds) : `${seconds / 60} min`);

/** For how long the page was hidden last, in milliseconds. */
function useHiddenTime(): { current: number } {
  const lasted = useRef(0);
  useEffect(() => {
    let since = document.hidden ? Date.now() : 0;
    const changed = () => {
      if (document.hidden) since = Date.now();
      else if (since) lasted.current = Date.now() - since;
    };
    document.addEventListener("visibilitychange", changed, { capture: true });
    return () => document.removeEventListener("visibilitychange", changed, { capture: true });
  }, []);
  return lasted;
}
