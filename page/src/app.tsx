/** The frame of every screen: the bar at the top, and the screen that the address names. */

import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import { onExpired, providerName } from "./api";
import { useEvents } from "./hooks";
import { Nothing, NotLoaded } from "./parts/placeholders";
import { endpointIn, experimentIn, href, jobIn, usePlace } from "./router";
import { JobScreen } from "./screens/job/job";
import { stream } from "./stream";
import { TARGETS } from "./targets";
import { TopBar } from "./top-bar";

export function App() {
  const { path } = usePlace();
  const [isExpired, setExpired] = useState(false);
  useEffect(() => onExpired(() => {
    stream.rest();
    setExpired(true);
  }), []);
  // The stream is opened again when the tab is looked at: by then the browser may have the session of another link.
  useEvents("again", () => setExpired(false));
  return (
    <>
      <a class="skip" href="#main">To the content</a>
      <TopBar path={path} />
      <main id="main" tabIndex={-1}>{isExpired ? <NoSession /> : <Screen path={path} />}</main>
    </>
  );
}

function Screen({ path }: { path: string }) {
  const job = jobIn(path);
  const experiment = experimentIn(path);
  const endpoint = endpointIn(path);
  const target = TARGETS.find((one) => one.path === (endpoint === undefined ? path : "/endpoints"));
  const name = job ?? experiment ?? endpoint;
  useEffect(() => {
    document.title = name ? `${name} · drumbeat` : `${target?.label ?? "Nothing here"} · drumbeat`;
  }, [path]);
  if (job) return <JobScreen key={job} name={job} />;
  if (experiment !== undefined || path === "/runs") return <Late key={path} load={() => import("./screens/runs/runs").then((one) => one.RunsScreen)} />;
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
  useEffect(() => void load().then((screen) => setLoaded({ screen }), () => setLoaded({ screen: NotLoaded })), []);
  return Loaded ? <Loaded.screen /> : <p class="nothing loading">Loading…</p>;
}

/** How to come in; by the identity provider, too, where the server has one. */
function NoSession() {
  const [provider, setProvider] = useState("");
  useEffect(() => void providerName().then(setProvider), []);
  const to = `${location.pathname}${location.search}${location.hash}`;
  return (
    <div class="note">
      <h1>This browser has no session</h1>
      {provider && (
        <p><a class="button" target="_self" href={`/ui/sign-in?to=${encodeURIComponent(to)}`}>Sign in with {provider}</a></p>
      )}
      <p>{provider ? "Or run" : "Run"} <code>drumbeat ui</code> in a terminal and open the link that it prints. A session lasts seven days.</p>
    </div>
  );
}
