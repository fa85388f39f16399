/** The frame of every screen: where one can go, whether the page is live, and which screen the address names. */

import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import { onExpired } from "./api";
import { useEvents, useKey } from "./hooks";
import { DesktopNotices } from "./parts/desktop";
import { KeyList } from "./parts/dialog";
import { Nothing } from "./parts/notes";
import { go, href, jobIn, usePlace } from "./router";
import { JobScreen } from "./screens/job/job";
import { JobsScreen } from "./screens/jobs";
import { stream } from "./stream";

interface Target { path: string; label: string; key: string; load?: () => Promise<ComponentType>; screen?: ComponentType }

const TARGETS: Target[] = [
  { path: "/", label: "Jobs", key: "j", screen: JobsScreen },
  { path: "/experiments", label: "Experiments", key: "e", load: () => import("./screens/experiments").then((one) => one.ExperimentsScreen) },
  { path: "/compare", label: "Compare", key: "c", load: () => import("./screens/compare").then((one) => one.CompareScreen) },
  { path: "/computes", label: "Computes", key: "m", load: () => import("./screens/computes").then((one) => one.ComputesScreen) },
  { path: "/data", label: "Data", key: "d", load: () => import("./screens/catalog").then((one) => one.CatalogScreen) },
  { path: "/ledger", label: "Ledger", key: "l", load: () => import("./screens/ledger").then((one) => one.LedgerScreen) },
  { path: "/server", label: "Server", key: "s", load: () => import("./screens/server").then((one) => one.ServerScreen) },
];

export function App() {
  const { path } = usePlace();
  const [isExpired, setExpired] = useState(false);
  useEffect(() => onExpired(() => setExpired(true)), []);
  return (
    <>
      <a class="skip" href="#main">To the content</a>
      <Bar path={path} />
      <main id="main" tabIndex={-1}>{isExpired ? <NoSession /> : <Screen path={path} />}</main>
    </>
  );
}

function Screen({ path }: { path: string }) {
  const job = jobIn(path);
  const target = TARGETS.find((one) => one.path === path);
  useEffect(() => {
    document.title = job ? `${job} · drumbeat` : `${target?.label ?? "Nothing here"} · drumbeat`;
  }, [path]);
  if (job) return <JobScreen key={job} name={job} />;
  if (target?.screen) return <target.screen />;
  if (target?.load) return <Late key={path} load={target.load} />;
  return (
    <div class="screen">
      <h1>There is no such page</h1>
      <Nothing><a href={href("/")}>All jobs</a></Nothing>
    </div>
  );
}

/** A screen whose code comes when it is opened. */
export function Late({ load }: { load: () => Promise<ComponentType> }) {
  const [Loaded, setLoaded] = useState<{ screen: ComponentType }>();
  useEffect(() => void load().then((screen) => setLoaded({ screen })), []);
  return Loaded ? <Loaded.screen /> : <p class="nothing loading">Loading…</p>;
}

function Bar({ path }: { path: string }) {
  const [hasKeys, setKeys] = useState(false);
  const [isOpen, setOpen] = useState(stream.isOpen);
  useEvents("open", setOpen);
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
      <nav aria-label="Screens">
        {TARGETS.map((target) => <Destination key={target.path} target={target} path={path} />)}
      </nav>
      <span class={`live ${isOpen ? "" : "tone-wait"}`} role="status">
        <span class="live-dot" aria-hidden="true" />
        <span class="live-word">{isOpen ? "live" : "not connected"}</span>
      </span>
      <DesktopNotices />
      <button type="button" class="quiet" aria-label="Keys" title="Keys (?)" onClick={() => setKeys(true)}>?</button>
      {hasKeys && <KeyList onClose={() => setKeys(false)} />}
    </header>
  );
}

function Destination({ target, path }: { target: Target; path: string }) {
  const isHere = target.path === path || (target.path === "/" && path.startsWith("/jobs"));
  useKey(target.key.toUpperCase(), `Go to ${target.label.toLowerCase()}`, () => go(href(target.path)));
  return <a href={href(target.path)} aria-current={isHere ? "page" : undefined}>{target.label}</a>;
}

function NoSession() {
  return (
    <div class="note">
      <h1>This browser has no session</h1>
      <p>Run <code>drumbeat ui</code> in a terminal and open the link that it prints. A session lasts seven days.</p>
    </div>
  );
}
