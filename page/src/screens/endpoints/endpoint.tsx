/** One online endpoint: its address, its deployments, curves of its requests, its replicas, and a form to try it. */

import { segment } from "../../api";
import { useAnswer } from "../../hooks";
import { Chart } from "../../parts/chart";
import { CopyButton } from "../../parts/copy-button";
import { Linked } from "../../parts/job-links";
import { StateIcon, StateWord } from "../../parts/job-state";
import { Answered, Nothing } from "../../parts/placeholders";
import { Ago } from "../../parts/time";
import { href, jobHref } from "../../router";
import type { DeploymentRequests, Endpoint } from "../../types";
import { DeploymentTable } from "./deployment-table";
import { linesOf, requestsPath, useFresh, type Line } from "./requests";
import { TryIt } from "./try-it";

export function EndpointScreen({ name }: { name: string }) {
  const answer = useAnswer<Endpoint>(`/online-endpoints/${segment(name)}`);
  const requests = useAnswer<DeploymentRequests[]>(requestsPath(name));
  useFresh(answer, requests);
  return (
    <div class="screen">
      <div class="job-title"><h1>{name}</h1>{answer.value && <StateWord state={answer.value.state} />}</div>
      <Answered answer={answer}>
        {(endpoint) => (
          <>
            <Facts endpoint={endpoint} />
            <Answered answer={requests}>
              {(all) => (
                <>
                  <DeploymentTable endpoint={endpoint} deployments={all} />
                  <Curves all={all} />
                  <Replicas all={all} />
                  <TryIt endpoint={endpoint} deployments={all.map((one) => one.deployment.definition.name)} />
                </>
              )}
            </Answered>
          </>
        )}
      </Answered>
      <p class="gap"><a href={href("/endpoints")}>All endpoints</a></p>
    </div>
  );
}

function Facts({ endpoint }: { endpoint: Endpoint }) {
  const { definition } = endpoint;
  const tags = Object.entries(definition.tags);
  return (
    <>
      {definition.description && <p>{definition.description}</p>}
      {endpoint.sentence && <p class="muted">{endpoint.sentence}</p>}
      <dl class="facts endpoint-facts">
        <div><dt>address</dt><dd class="machine">{endpoint.scoring_uri} <CopyButton text={endpoint.scoring_uri} /></dd></div>
        <div><dt>opened by</dt><dd>{definition.auth_mode === "key" ? "one of two keys" : "a token, valid for an hour"}</dd></div>
        <div><dt>created</dt><dd><Ago at={endpoint.created_at} /></dd></div>
        {tags.length > 0 && <div><dt>tags</dt><dd>{tags.map(([key, value]) => `${key}: ${value}`).join(", ")}</dd></div>}
      </dl>
    </>
  );
}

function Curves({ all }: { all: DeploymentRequests[] }) {
  if (!all.length) return null;
  const shown: [title: string, lines: Line[]][] = [
    ["Requests per second", linesOf(all, ["", (one) => one.requests_per_s])],
    ["Latency, ms", linesOf(all, ["p50", (one) => one.p50_ms], ["p95", (one) => one.p95_ms])],
    ["Errors per second", linesOf(all, ["", (one) => one.errors_per_s])],
  ];
  if (!shown[0]![1].length) return <p class="nothing-yet">Curves begin ten seconds after the deployment's first replica, or after the server's start.</p>;
  return (
    <section aria-label="Requests">
      <h2 class="gap">The last hour</h2>
      <div class="charts">
        {shown.map(([title, lines]) => (
          <figure key={title} class="chart-card">
            <figcaption><span class="chart-name">{title}</span></figcaption>
            <Chart lines={lines} isTime label={`${title} of each deployment over the last hour`} syncKey="endpoint" />
          </figure>
        ))}
      </div>
    </section>
  );
}

function Replicas({ all }: { all: DeploymentRequests[] }) {
  const replicas = all.flatMap((one) => one.replicas.map((each) => ({ ...each, deployment: one.deployment.definition.name })));
  if (!all.length) return null;
  return (
    <section aria-label="Replicas">
      <h2 class="gap">Replicas</h2>
      {!replicas.length ? <Nothing>No replica now.</Nothing> : (
        <div class="scroll" tabIndex={0} role="region" aria-label="Replicas and their jobs">
          <table class="plain">
            <thead><tr><th scope="col">Job</th><th scope="col">Deployment</th><th scope="col" class="right wide-only">Generation</th><th scope="col">State</th><th scope="col" class="right">Requests now</th></tr></thead>
            <tbody>
              {replicas.map((one) => (
                <tr key={one.job}>
                  <td class="replica-name">{one.state ? <a href={jobHref(one.job)}>{one.job}</a> : one.job}</td>
                  <td>{one.deployment}</td>
                  <td class="right number wide-only">{one.generation}</td>
                  <td>
                    <span class="state"><StateIcon state={one.is_ready ? "ready" : one.state ?? "queued"} /> {one.is_ready ? "takes requests" : one.state ?? "not submitted yet"}</span>
                    {!one.is_ready && one.sentence && <span class="under"><span><Linked sentence={one.sentence} /></span></span>}
                  </td>
                  <td class="right number">{one.running}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}
