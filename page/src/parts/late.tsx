/** Code that comes when it is needed. What can't be had while the server is away comes once it is back. */

import type { ComponentType } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { isCodeHere } from "../code-ahead";
import { useEvents } from "../hooks";
import { stream } from "../stream";

type Load<P> = () => Promise<ComponentType<P>>;

/** A component whose code comes when it is drawn. meanwhile: what is seen until then; by default, that it is on its way. */
export const late = <P extends object>(load: Load<P>, meanwhile: preact.JSX.Element | null = LOADING): ComponentType<P> =>
  function LateComponent(props: P) {
    const Loaded = useLate(load);
    return Loaded ? <Loaded {...props} /> : meanwhile;
  };

/** The component, once its code is here. */
export function useLate<P>(load: Load<P>): ComponentType<P> | undefined {
  const [loaded, setLoaded] = useState<{ component: ComponentType<P> }>();
  const failures = useRef(0);
  const ask = () => {
    // A browser remembers of a module that it wasn't there: what isn't here is asked for when the server is.
    if (stream.isLost && !isCodeHere()) return;
    load().then(
      (component) => setLoaded({ component }),
      () => (failures.current += 1) > 1 && renew(),
    );
  };
  useEffect(ask, []);
  useEvents("again", () => !loaded && ask());
  return loaded?.component;
}

const RENEWED = "drumbeat-renewed";
const PAUSE_MS = 60_000;

/** The server is there and the code isn't: it is a newer server with other files, or went away as the code was asked for.
 *  The page begins again at its address, where every choice stands; once a minute at most. */
function renew(): void {
  const last = Number(sessionStorage.getItem(RENEWED));
  if (Date.now() - last < PAUSE_MS) return;
  sessionStorage.setItem(RENEWED, String(Date.now()));
  location.reload();
}

const LOADING = <p class="nothing loading">Loading…</p>;
