/** The deployments of an endpoint: traffic, requests, latency, errors, replicas and why some are missing. */

import { Linked } from "../../parts/job-links";
import { StateWord } from "../../parts/job-state";
import { Nothing } from "../../parts/placeholders";
import { href, jobHref } from "../../router";
import type { DeploymentRequests, Endpoint } from "../../types";
import { milliseconds, modelOf, perSecond } from "./requests";

export function DeploymentTable({ endpoint, deployments }: { endpoint: Endpoint; deployments: DeploymentRequests[] }) {
  const name = endpoint.definition.name;
  if (!deployments.length) return <Nothing>It has no deployment yet. <code>drumbeat online-deployment create -f FILE -e {name} --all-traffic</code> puts a model behind it.</Nothing>;
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={`Deployments of ${name}`}>
      <table class="plain deployments">
        <thead>
          <tr>
            <th scope="col">Deployment</th><th scope="col">State</th><th scope="col">Replicas ready</th><th scope="col" class="right">Traffic</th><th scope="col" class="right">Requests/s</th>
            <th scope="col" class="right">p50</th><th scope="col" class="right">p95</th><th scope="col" class="right">Errors/s</th>
          </tr>
        </thead>
        <tbody>{deployments.map((one) => <Row key={one.deployment.definition.name} endpoint={endpoint} one={one} />)}</tbody>
      </table>
    </div>
  );
}

function Row({ endpoint, one }: { endpoint: Endpoint; one: DeploymentRequests }) {
  const { deployment, now } = one;
  const { name } = deployment.definition;
  const mirrored = endpoint.definition.mirror_traffic[name];
  const model = modelOf(one.model);
  return (
    <tr>
      <td class="deployment-name">
        {name}
        {model && <span class="under"><a href={href("/data", { tab: "models", name: model.name, version: model.version })}>{model.name}:{model.version}</a></span>}
      </td>
      <td><StateWord state={deployment.state} /></td>
      <td class="replicas-cell">
        {deployment.job ? <a href={jobHref(deployment.job)}>{deployment.ready} of {deployment.wanted}</a> : `${deployment.ready} of ${deployment.wanted}`}
        {(deployment.state !== "ready" || deployment.ready < deployment.wanted) && deployment.sentence
          && <span class={`under ${deployment.state === "failed" ? "tone-bad" : ""}`}><span><Linked sentence={deployment.sentence} /></span></span>}
      </td>
      <td class="right number">{endpoint.definition.traffic[name] ?? 0} %{mirrored ? <span class="under right-under">copies of {mirrored} %</span> : null}</td>
      <td class="right number">{perSecond(now.requests_per_s)}{one.waiting > 0 && <span class="under right-under">{one.waiting} waiting</span>}</td>
      <td class="right number">{milliseconds(now.p50_ms)}</td>
      <td class="right number">{milliseconds(now.p95_ms)}</td>
      <td class={`right number${now.errors_per_s > 0 ? " tone-bad" : ""}`}>{perSecond(now.errors_per_s)}</td>
    </tr>
  );
}
