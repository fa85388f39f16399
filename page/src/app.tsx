/** The frame of every screen: the bar at the top, and the screen that the address names. */

import { useEffect, useState } from "preact/hooks";
import { ApiError, onExpired, providerName, tokenLink } from "./api";
import { useEvents } from "./hooks";
import { late } from "./parts/late";
import { Nothing, Refused } from "./parts/placeholders";
import { endpointIn, experimentIn, href, jobIn, rememberAsked, usePlace } from "./router";
import { JobScreen } from "./screens/job/job";
import { ServerAway } from "./server-away";
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
      {!isExpired && <ServerAway />}
      <main id="main" tabIndex={-1}>{isExpired ? <NoSession /> : <Screen path={path} />}</main>
    </>
  );
}

function Screen({ path }: { path: string }) {
  const job = jobIn(path);
  const experiment = experimentIn(path);
  const endpoint = endpointIn(path);
  const of = endpoint !== undefined ? "/endpoints" : path.startsWith("/docs/") ? "/docs" : path;
  const target = TARGETS.find((one) => one.path === of);
  const name = job ?? experiment ?? endpoint;
  useEffect(() => {
    document.title = name ? `${name} · drumbeat` : `${target?.label ?? "Nothing here"} · drumbeat`;
  }, [path]);
  if (job) return <JobScreen key={job} name={job} />;
  if (experiment !== undefined || path === "/runs") return <Runs key={path} />;
  if (target) return <target.screen key={path} />;
  return (
    <div class="screen">
      <h1>There is no such page</h1>
      <Nothing><a href={href("/")}>All jobs</a></Nothing>
    </div>
  );
}

const Runs = late(() => import("./screens/runs/runs").then((one) => one.RunsScreen));

/** How to come in: by the identity provider, where the server has one, by a one-time link, or by a token. */
function NoSession() {
  const [provider, setProvider] = useState("");
  useEffect(() => void providerName().then(setProvider), []);
  const to = `${location.pathname}${location.search}`;
  useEffect(() => rememberAsked(to), [to]);
  return (
    <div class="note">
      <h1>This browser has no session</h1>
      {provider && (
        <p><a class="button" target="_self" href={`/ui/sign-in?to=${encodeURIComponent(to)}`}>Sign in with {provider}</a></p>
      )}
      <p>{provider ? "Or run" : "Run"} <code>drumbeat ui</code> in a terminal and open the link that it prints: it leads back here. A session lasts seven days.</p>
      <TokenForm to={to} />
    </div>
  );
}

/** Signs in with the token that an owner has given; the browser keeps a session and not the token. */
function TokenForm({ to }: { to: string }) {
  const [token, setToken] = useState("");
  const [error, setError] = useState<ApiError>();
  const open = async () => {
    setError(undefined);
    try {
      location.assign(`${await tokenLink(token.trim())}?to=${encodeURIComponent(to)}`);
    } catch (refused) {
      setError(refused instanceof ApiError ? refused : new ApiError(0, String(refused)));
    }
  };
  return (
    <form class="token-form" onSubmit={(event) => {
      event.preventDefault();
      void open();
    }}>
      <label>Or a token of yours <input type="password" autocomplete="off" required value={token} onInput={(event) => setToken(event.currentTarget.value)} /></label>{" "}
      <button type="submit">Sign in</button>
      {error && <Refused error={error} />}
    </form>
  );
}
