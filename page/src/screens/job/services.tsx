/** The services beside a job's ranks: how each is, and a button that opens it in a tab of its own. */

import { useState } from "preact/hooks";
import { act, ApiError, segment } from "../../api";
import { useMayAct } from "../../hooks";
import { ENDED } from "../../parts/job-state";
import type { Job, Service } from "../../types";

export function Services({ job }: { job: Job }) {
  const services = job.services ?? [];
  if (services.length === 0 || ENDED.has(job.state)) return null;
  return (
    <section class="services" aria-label="Services">
      {services.map((one) => <ServiceItem key={`${one.name} ${one.node}`} job={job} service={one} />)}
    </section>
  );
}

function ServiceItem({ job, service }: { job: Job; service: Service }) {
  const [problem, setProblem] = useState("");
  const mayAct = useMayAct();
  const where = job.node_count > 1 && service.node > 0 ? ` on node ${service.node}` : "";
  const state = service.is_running ? "running" : service.problem || "not running yet";
  return (
    <div class="service">
      <span><strong>{service.name}</strong>{where} <span class="muted">{service.type === service.name ? "" : `${service.type}, `}{problem || state}</span></span>
      {service.is_running && !service.is_web && <code>drumbeat ssh {job.name}{service.node ? ` --node ${service.node}` : ""}</code>}
      {service.is_running && service.is_web && mayAct && (
        <button type="button" onClick={() => void open(job, service).then(setProblem)}>Open {service.name}{where}</button>
      )}
    </div>
  );
}

/** Opens the service at its own port; returns why that isn't possible, "" = it is. */
async function open(job: Job, service: Service): Promise<string> {
  const tab = window.open("about:blank", "_blank"); // At the click: a browser blocks what comes later.
  if (tab) tab.opener = null;
  try {
    const path = `/jobs/${segment(job.name)}/services/${segment(service.name)}/links`;
    const { url } = await act<{ url: string }>("POST", path, { node: service.node });
    if (!tab) return "the browser blocked the tab";
    tab.location.href = url;
    return "";
  } catch (error) {
    tab?.close();
    return error instanceof ApiError ? error.what : String(error);
  }
}
