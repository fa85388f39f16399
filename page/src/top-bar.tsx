/** The bar at the top: where one can go, whether the page is live, notices on the desktop, and the list of keys. */

import { useEffect, useRef, useState } from "preact/hooks";
import { session } from "./api";
import { useEvents } from "./hooks";
import { KeyList, useKey } from "./keys";
import { DesktopNotices } from "./parts/desktop-notices";
import { go, href } from "./router";
import { stream } from "./stream";
import { TARGETS, type Target } from "./targets";
import type { Session } from "./types";

export function TopBar({ path }: { path: string }) {
  const [hasKeys, setKeys] = useState(false);
  const [isOpen, setOpen] = useState(stream.isOpen);
  useEvents("open", setOpen);
  // It may have been opened since the bar was drawn, before the bar listens.
  useEffect(() => setOpen(stream.isOpen), []);
  const nav = useRef<HTMLElement>(null);
  const fade = () => nav.current && showEdges(nav.current);
  useEffect(() => {
    const watch = new ResizeObserver(() => nav.current && showPresent(nav.current));
    watch.observe(nav.current!);
    return () => watch.disconnect();
  }, [path]);
  useKey("?", "This list of keys", () => setKeys(true));
  return (
    <header class="bar">
      <a class="logo" href={href("/")} aria-label="drumbeat: all jobs">
        <svg viewBox="0 0 20 16" width="20" height="16" aria-hidden="true">
          <g fill="currentColor">
            <rect x="0" y="5.5" width="2.6" height="5" rx="1.3" /><rect x="4.4" y="3" width="2.6" height="10" rx="1.3" />
            <rect x="8.8" y="0" width="2.6" height="16" rx="1.3" /><rect x="13.2" y="4" width="2.6" height="8" rx="1.3" />
            <rect x="17.4" y="6" width="2.6" height="4" rx="1.3" />
          </g>
        </svg>
        <span>drumbeat</span>
      </a>
      <nav aria-label="Screens" ref={nav} onScroll={fade}>
        {TARGETS.map((target) => <Destination key={target.path} target={target} path={path} />)}
      </nav>
      <Who />
      <span class={`live ${isOpen ? "" : "tone-wait"}`} role="status" title={isOpen ? "The page is connected to the server: it follows every change" : "The page has lost the server: what it shows may be old"}>
        <span class="live-dot" aria-hidden="true" />
        <span class="live-word">{isOpen ? "connected" : "not connected"}</span>
      </span>
      <DesktopNotices />
      <button type="button" class="quiet" aria-label="Keys" title="Keys (?)" onClick={() => setKeys(true)}>?</button>
      {hasKeys && <KeyList onClose={() => setKeys(false)} />}
    </header>
  );
}

/** On a small screen the bar scrolls, and the present item may be outside. */
function showPresent(nav: HTMLElement): void {
  const item = nav.querySelector<HTMLElement>("[aria-current]");
  // `scrollIntoView` would also let the keyboard begin there.
  if (item) nav.scrollLeft = item.offsetLeft - nav.offsetLeft - (nav.clientWidth - item.clientWidth) / 2;
  showEdges(nav);
}

/** Lets the edges fade behind which there are more items. */
function showEdges(nav: HTMLElement): void {
  nav.classList.toggle("more-left", nav.scrollLeft > 1);
  nav.classList.toggle("more-right", nav.scrollLeft + nav.clientWidth < nav.scrollWidth - 1);
}

/** Whose session this is, where several people use the server or it isn't an owner's; and which server it is. */
function Who() {
  const [own, setOwn] = useState<Session>();
  const ask = () => void session().then(setOwn, () => undefined);
  useEffect(ask, []);
  useEvents("again", ask);
  if (!own) return null;
  const who = whoOf(own.person, own.role);
  return (
    <span class="who muted">
      {who && <span class={own.role}>{who}</span>}
      {own.server && <span class="server-name" title={`drumbeat ${own.version} on ${own.server}`}>{own.server}{own.version && ` · ${own.version}`}</span>}
    </span>
  );
}

/** `ada · reader`. */
export const whoOf = (person: string, role: string): string => (person ? `${person} · ${role}` : role === "owner" ? "" : role);

function Destination({ target, path }: { target: Target; path: string }) {
  const isHere = target.path === path || (target.path === "/" && path.startsWith("/jobs")) || (target.path !== "/" && path.startsWith(`${target.path}/`));
  useKey(target.key.toUpperCase(), `Go to ${target.label.toLowerCase()}`, () => go(href(target.path)));
  return <a href={href(target.path)} aria-current={isHere ? "page" : undefined}>{target.label}</a>;
}
