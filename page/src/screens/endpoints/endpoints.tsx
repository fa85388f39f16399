/** Online endpoints: their deployments with traffic, requests and replicas. */

import { useAnswer } from "../../hooks";
import { Answered, Nothing } from "../../parts/placeholders";
import { StateWord } from "../../parts/job-state";
import { endpointHref, endpointIn, usePlace } from "../../router";
import type { DeploymentRequests, Endpoint } from "../../types";
import { DeploymentTable } from "./deployment-table";
import { EndpointScreen } from "./endpoint";
import { requestsPath, useFresh } from "./requests";

export function EndpointsScreen() {
  const { path } = usePlace();
  const name = endpointIn(path);
  return name === undefined ? <EndpointList /> : <EndpointScreen key={name} name={name} />;
}

function EndpointList() {
  const answer = useAnswer<Endpoint[]>("/online-endpoints");
  const requests = useAnswer<DeploymentRequests[]>(requestsPath());
  useFresh(answer, requests);
  return (
    <div class="screen">
      <h1>Endpoints</h1>
      <Answered answer={answer}>
        {(all) => all.length === 0 ? <NoEndpoint /> : all.map((one) => (
          <section key={one.definition.name} class="compute" aria-label={`Endpoint ${one.definition.name}`}>
            <header class="section-head">
              <h2><a href={endpointHref(one.definition.name)}>{one.definition.name}</a></h2>
              <StateWord state={one.state} />
              <span class="muted machine endpoint-address">{one.scoring_uri}</span>
            </header>
            {one.sentence && <p class="muted">{one.sentence}</p>}
            <Answered answer={requests}>
              {(deployments) => <DeploymentTable endpoint={one} deployments={deployments.filter((each) => each.deployment.definition.endpoint_name === one.definition.name)} />}
            </Answered>
          </section>
        ))}
      </Answered>
    </div>
  );
}

function NoEndpoint() {
  return (
    <>
      <Nothing>No endpoint. A registered model gets an address by these commands; <code>blue.yml</code> names the model and a script that scores with it.</Nothing>
      <pre class="block">{[
        "drumbeat online-endpoint create digits",
        "drumbeat online-deployment create -f blue.yml --all-traffic",
        "drumbeat online-endpoint invoke digits --data '{\"data\": [1, 2]}'",
      ].join("\n")}</pre>
    </>
  );
}
