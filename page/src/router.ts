/** Addresses: the part behind /ui, and the query, in which every choice of a person stands. */

import { useEffect, useRef, useState } from "preact/hooks";

export const BASE = "/ui";

export interface Place { path: string; query: URLSearchParams }

const listeners = new Set<() => void>();

export function place(): Place {
  const path = location.pathname.startsWith(BASE) ? location.pathname.slice(BASE.length) : location.pathname;
  return { path: path || "/", query: new URLSearchParams(location.search) };
}

/** The job that a path names; undefined = none, also where its name is no text. */
export const jobIn = (path: string): string | undefined => nameIn(path, /^\/jobs\/([^/]+)\/?$/);

/** The same of the experiment whose runs a path names. */
export const experimentIn = (path: string): string | undefined => nameIn(path, /^\/experiments\/([^/]+)\/?$/);

/** The same of the online endpoint that a path names. */
export const endpointIn = (path: string): string | undefined => nameIn(path, /^\/endpoints\/([^/]+)\/?$/);

function nameIn(path: string, pattern: RegExp): string | undefined {
  const name = pattern.exec(path)?.[1];
  try {
    return name && decodeURIComponent(name);
  } catch {
    return undefined;
  }
}

export function href(path: string, query: Record<string, string | string[] | undefined> = {}): string {
  const words = new URLSearchParams();
  for (const [key, value] of Object.entries(query)) {
    if (value === undefined || value === "") continue;
    for (const one of Array.isArray(value) ? value : [value]) words.append(key, one);
  }
  const text = words.toString();
  return `${BASE}${path}${text ? `?${text}` : ""}`;
}

export const jobHref = (name: string, query: Record<string, string | undefined> = {}): string =>
  href(`/jobs/${encodeURIComponent(name)}`, query);

export const experimentHref = (name: string): string => href(`/experiments/${encodeURIComponent(name)}`);

export const endpointHref = (name: string): string => href(`/endpoints/${encodeURIComponent(name)}`);

/** Goes to an address; another screen begins at its top. The browser itself restores the place where one goes back. */
export function go(target: string, replaces = false): void {
  const before = location.pathname;
  if (replaces || target === location.pathname + location.search) history.replaceState(null, "", target);
  else history.pushState(null, "", target);
  for (const listener of [...listeners]) listener();
  if (location.pathname !== before) scrollTo(0, 0);
}

/** Changes words of the query; an empty one is removed. */
export function setQuery(changes: Record<string, string | string[] | undefined>, replaces = true): void {
  const { path, query } = place();
  for (const [key, value] of Object.entries(changes)) {
    query.delete(key);
    for (const one of Array.isArray(value) ? value : [value]) if (one) query.append(key, one);
  }
  const text = query.toString();
  go(`${BASE}${path}${text ? `?${text}` : ""}`, replaces);
}

const ASKED = "drumbeat-asked";
const ASKED_MS = 600_000;
/** As long as a one-time link works. */

/** Keeps the address that a browser without a session has asked for: a link opens it. */
export function rememberAsked(to: string): void {
  localStorage.setItem(ASKED, JSON.stringify({ to, at: Date.now() }));
}

/** Goes to the address that was asked for before a one-time link was opened. */
export function goToAsked(): void {
  if (location.hash !== OPENED) return;
  const { to, at } = JSON.parse(localStorage.getItem(ASKED) ?? "{}") as { to?: string; at?: number };
  localStorage.removeItem(ASKED);
  const isFresh = to?.startsWith(`${BASE}/`) && Date.now() - (at ?? 0) < ASKED_MS;
  history.replaceState(null, "", isFresh ? to : location.pathname);
}

const OPENED = "#opened";

export function usePlace(): Place {
  const [now, setNow] = useState(place);
  const drawn = useRef(location.href);
  useEffect(() => {
    const changed = () => setNow(place());
    if (location.href !== drawn.current) changed();
    listeners.add(changed);
    addEventListener("popstate", changed);
    return () => {
      listeners.delete(changed);
      removeEventListener("popstate", changed);
    };
  }, []);
  return now;
}

/** Follows links within the page without loading it again. */
export function followLinks(): void {
  document.addEventListener("click", (event) => {
    const link = (event.target as Element | null)?.closest?.("a");
    const isOther = event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey;
    if (!link || isOther || link.target || link.hasAttribute("download") || link.origin !== location.origin) return;
    // A link within the screen, to its content, is the browser's.
    if (!link.pathname.startsWith(`${BASE}/`) || link.hash) return;
    event.preventDefault();
    go(link.pathname + link.search);
  });
}
