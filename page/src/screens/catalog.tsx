/** Data, models, environments and datastores: versions, size, who made it and who uses it. */

import { useAnswer } from "../hooks";
import { counted, size } from "../format";
import { segment } from "../api";
import { Answered, Nothing, Refused } from "../parts/placeholders";
import { Tabs } from "../parts/tabs";
import { Ago } from "../parts/time";
import { CopyButton } from "../parts/copy-button";
import { href, jobHref, setQuery, usePlace } from "../router";
import type { Data, Datastore, Environment, ModelLineage, ModelVersion } from "../types";

const TABS = [
  { id: "data", label: "Data" }, { id: "models", label: "Models" }, { id: "environments", label: "Environments" },
  { id: "datastores", label: "Datastores" },
];

export function CatalogScreen() {
  const { query } = usePlace();
  const chosen = TABS.find((tab) => tab.id === query.get("tab"))?.id ?? "data";
  return (
    <div class="screen">
      <h1>Data, models, environments</h1>
      <Tabs tabs={TABS} chosen={chosen} label="Kinds" />
      {chosen !== "datastores" && (
        <div class="filters">
          <label class="check">
            <input type="checkbox" checked={query.has("archived")} onChange={(event) => setQuery({ archived: event.currentTarget.checked ? "1" : "" })} />
            archived too
          </label>
        </div>
      )}
      <div id="tab-panel" role="tabpanel" aria-labelledby={`tab-${chosen}`} class="panel">
        {chosen === "environments" ? <Environments /> : chosen === "datastores" ? <Datastores /> : chosen === "models" ? <Models /> : <DataList />}
      </div>
    </div>
  );
}

/** The part of a query that asks for archived versions, too, where the screen shows these. */
const archivedToo = (query: URLSearchParams): { archived?: boolean } => query.has("archived") ? { archived: true } : {};

const Archived = ({ one }: { one: { is_archived: boolean } }) => one.is_archived ? <span class="tag">archived</span> : null;

function DataList() {
  const { query } = usePlace();
  const answer = useAnswer<Data[]>("/data", archivedToo(query));
  const name = query.get("name") ?? "";
  return (
    <Answered answer={answer}>
      {(all) => {
        const rows = all.filter((one) => one.kind === one.type); // Models have a tab of their own.
        if (!rows.length) return <Nothing>No data is registered. <code>drumbeat data create</code> makes it known under a name.</Nothing>;
        return (
          <div class="browser">
            <table class="plain">
              <thead><tr><th scope="col">Name</th><th scope="col">Newest</th><th scope="col" class="right">Size</th><th scope="col" class="right wide-only">Made</th></tr></thead>
              <tbody>
                {rows.map((one) => (
                  <tr key={one.name} class={one.name === name ? "selected" : ""}>
                    <td><button type="button" class="as-link" onClick={() => setQuery({ name: one.name, version: "" }, false)}>{one.name}</button> <Archived one={one} /><span class="under">{one.kind}</span></td>
                    <td class="machine">{one.version}</td>
                    <td class="right number">{size(one.size)}<span class="under right-under">{counted(one.files, "file")}</span></td>
                    <td class="right wide-only"><Ago at={one.created_at} /></td>
                  </tr>
                ))}
              </tbody>
            </table>
            <section aria-label="Versions">{name ? <Versions key={name} name={name} /> : <Nothing>Choose a name to see its versions, and what made and used them.</Nothing>}</section>
          </div>
        );
      }}
    </Answered>
  );
}

function Versions({ name }: { name: string }) {
  const { query } = usePlace();
  const versions = useAnswer<Data[]>("/data", { name, ...archivedToo(query) });
  const version = query.get("version") || versions.value?.[0]?.version;
  const one = useAnswer<Data>(version ? `/data/${segment(name)}/versions/${segment(version)}` : undefined);
  if (versions.error && !version) return <Refused error={versions.error} />;
  if (versions.value?.length === 0 && !version) return <Nothing>{name} has no version that isn't archived.</Nothing>;
  return (
    <>
      <div class="chips" role="group" aria-label="Versions">
        {(versions.value ?? []).map((each) => (
          <button type="button" key={each.version} class={`chip${each.version === version ? " chosen" : ""}`} aria-pressed={each.version === version}
            onClick={() => setQuery({ version: each.version })}>{each.version}</button>
        ))}
      </div>
      <Answered answer={one}>
        {(data) => (
          <div class="card lineage">
            <header><h2 class="machine">{`azureml:${data.name}:${data.version}`}</h2><CopyButton text={`azureml:${data.name}:${data.version}`} /><Archived one={data} /></header>
            {data.description && <p>{data.description}</p>}
            <dl class="facts">
              <div><dt>where</dt><dd class="machine">{data.uri}</dd></div>
              <div><dt>size</dt><dd>{size(data.size)} in {counted(data.files, "file")}</dd></div>
              <div><dt>made</dt><dd><Ago at={data.created_at} /></dd></div>
              {data.digest && <div><dt>content</dt><dd class="machine">{data.digest.slice(0, 16)}</dd></div>}
            </dl>
            <ol class="lineage-row" aria-label="Lineage">
              <li>{data.made_by ? <>made by <a href={jobHref(data.made_by)}>{data.made_by}</a></> : "registered by a person"}</li>
              <li><strong>{data.name}:{data.version}</strong></li>
              <li>
                {data.used_by.length === 0 ? "no job has used it" : <>used by {data.used_by.map((use) => (
                  <span key={`${use.job} ${use.role}`}><a href={jobHref(use.job)}>{use.job}</a> <span class="muted">as {use.role}</span> </span>
                ))}</>}
              </li>
            </ol>
          </div>
        )}
      </Answered>
    </>
  );
}

function Models() {
  const { query } = usePlace();
  const answer = useAnswer<ModelVersion[]>("/models", archivedToo(query));
  const name = query.get("name") ?? "";
  return (
    <Answered answer={answer}>
      {(all) => {
        if (!all.length) return <Nothing>No model is registered. An output with a name and a type such as custom_model becomes one, and so does what MLflow registers.</Nothing>;
        return (
          <div class="browser">
            <table class="plain">
              <thead><tr><th scope="col">Name</th><th scope="col">Newest</th><th scope="col">Stage</th><th scope="col" class="right">Size</th><th scope="col" class="right wide-only">Made</th></tr></thead>
              <tbody>
                {all.map((one) => (
                  <tr key={one.name} class={one.name === name ? "selected" : ""}>
                    <td><button type="button" class="as-link" onClick={() => setQuery({ name: one.name, version: "" }, false)}>{one.name}</button> <Archived one={one} /><span class="under">{one.type}</span></td>
                    <td class="machine">{one.version}</td>
                    <td>{one.stage || <span class="muted">none</span>}</td>
                    <td class="right number">{size(one.size)}<span class="under right-under">{counted(one.files, "file")}</span></td>
                    <td class="right wide-only"><Ago at={one.created_at} /></td>
                  </tr>
                ))}
              </tbody>
            </table>
            <section aria-label="Versions">{name ? <ModelVersions key={name} name={name} /> : <Nothing>Choose a name to see its versions, and the way back to what made them.</Nothing>}</section>
          </div>
        );
      }}
    </Answered>
  );
}

function ModelVersions({ name }: { name: string }) {
  const { query } = usePlace();
  const versions = useAnswer<ModelVersion[]>("/models", { name, ...archivedToo(query) });
  const version = query.get("version") || versions.value?.[0]?.version;
  const one = useAnswer<ModelVersion>(version ? `/models/${segment(name)}/versions/${segment(version)}` : undefined);
  if (versions.error && !version) return <Refused error={versions.error} />;
  if (versions.value?.length === 0 && !version) return <Nothing>{name} has no version that isn't archived.</Nothing>;
  return (
    <>
      <div class="chips" role="group" aria-label="Versions">
        {(versions.value ?? []).map((each) => (
          <button type="button" key={each.version} class={`chip${each.version === version ? " chosen" : ""}`} aria-pressed={each.version === version}
            onClick={() => setQuery({ version: each.version })}>{each.version}{each.aliases.length ? ` ${each.aliases.join(", ")}` : ""}</button>
        ))}
      </div>
      <Answered answer={one}>{(model) => <ModelCard model={model} />}</Answered>
    </>
  );
}

function ModelCard({ model }: { model: ModelVersion }) {
  const title = `azureml:${model.name}:${model.version}`;
  return (
    <div class="card lineage">
      <header><h2 class="machine">{title}</h2><CopyButton text={title} /></header>
      {model.description && <p>{model.description}</p>}
      <dl class="facts">
        <div><dt>stage</dt><dd>{model.stage || "none"}{model.is_archived && ", archived"}</dd></div>
        {model.aliases.length > 0 && <div><dt>aliases</dt><dd>{model.aliases.join(", ")}</dd></div>}
        <div><dt>where</dt><dd class="machine">{model.uri}</dd></div>
        {model.files > 0 && <div><dt>size</dt><dd>{size(model.size)} in {counted(model.files, "file")}</dd></div>}
        <div><dt>made</dt><dd><Ago at={model.created_at} /></dd></div>
        {model.digest && <div><dt>content</dt><dd class="machine">{model.digest.slice(0, 16)}</dd></div>}
        <div><dt>signed</dt><dd>{model.statement ? <span class="machine">{model.statement.slice(0, 16)}</span> : model.problem}</dd></div>
        {model.scan && <div><dt>scan</dt><dd class={model.scan.startsWith("dangerous") ? "tone-bad" : ""}>{model.scan}</dd></div>}
      </dl>
      <h3 class="gap">The way back</h3>
      <WayBack lineage={model.lineage} madeBy={model.made_by} />
      <p>
        {model.used_by.length === 0 ? "No job has used it." : <>Used by {model.used_by.map((use) => (
          <span key={`${use.job} ${use.role}`}><a href={jobHref(use.job)}>{use.job}</a> <span class="muted">as {use.role}</span> </span>
        ))}</>}
      </p>
    </div>
  );
}

/** Where a model came from, by hash, as its signed statement says. */
function WayBack({ lineage, madeBy }: { lineage: ModelLineage; madeBy: string }) {
  const { job, code, environment, data } = lineage;
  if (!job) return <p>{madeBy ? <>made by <a href={jobHref(madeBy)}>{madeBy}</a></> : "registered by a person; no job is known that made it"}</p>;
  const named = Object.entries(environment ?? {}).map(([key, value]) => `${key} ${key === "key" || key === "build" ? value.slice(0, 12) : value}`);
  const metrics = Object.entries(lineage.metrics ?? {});
  return (
    <dl class="facts">
      <div><dt>job</dt><dd><a href={jobHref(job.name.split("~")[0]!)}>{job.name}</a> <span class="machine muted">plan {job.plan.slice(0, 12)}</span></dd></div>
      {code?.snapshot && <div><dt>code</dt><dd class="machine">{code.snapshot.slice(0, 16)}</dd></div>}
      {(data ?? []).map((one) => (
        <div key={one.input}>
          <dt>{one.input}</dt>
          <dd>{one.name ? <><a href={href("/data", { tab: one.kind === "model" ? "models" : "data", name: one.name, version: one.version })}>{one.name}:{one.version}</a> <span class="machine muted">{(one.digest ?? "").slice(0, 12)}</span></> : <span class="machine">{one.uri}</span>}</dd>
        </div>
      ))}
      {named.length > 0 && <div><dt>environment</dt><dd class="machine">{named.join(", ")}</dd></div>}
      {metrics.length > 0 && <div><dt>metrics</dt><dd>{metrics.map(([name, one]) => `${name} ${one.value}`).join(", ")}</dd></div>}
    </dl>
  );
}

function Environments() {
  const { query } = usePlace();
  const made = useAnswer<Environment[]>("/environments", archivedToo(query));
  const curated = useAnswer<Environment[]>("/environments", { curated: true });
  return (
    <>
      <Answered answer={made}>
        {(all) => all.length ? <EnvironmentTable environments={all} /> : <Nothing>None has been made. <code>drumbeat environment create</code> makes one; the curated ones below are always there.</Nothing>}
      </Answered>
      <h2 class="gap">Curated</h2>
      <Answered answer={curated}>{(all) => <EnvironmentTable environments={all} />}</Answered>
    </>
  );
}

function EnvironmentTable({ environments }: { environments: Environment[] }) {
  return (
    <table class="plain">
      <thead><tr><th scope="col">Environment</th><th scope="col">What it is</th><th scope="col" class="wide-only">Used by</th><th scope="col" class="right wide-only">Made</th></tr></thead>
      <tbody>
        {environments.map((one) => (
          <tr key={`${one.name} ${one.version}`}>
            <td class="machine">{one.name}{one.version ? `:${one.version}` : ""} <Archived one={one} /></td>
            <td>{one.about || one.image}{one.problem && <span class="under tone-bad">{one.problem}</span>}{one.notes.map((note) => <span key={note} class="under">{note}</span>)}</td>
            <td class="wide-only">{one.jobs.slice(0, 3).map((job) => <a key={job} class="row-list" href={jobHref(job)}>{job}</a>)}{one.jobs.length > 3 ? ` and ${one.jobs.length - 3} more` : ""}</td>
            <td class="right wide-only"><Ago at={one.created_at} /></td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Datastores() {
  const answer = useAnswer<Datastore[]>("/datastores");
  return (
    <Answered answer={answer}>
      {(all) => (
        <div class="scroll" tabIndex={0} role="region" aria-label="Datastores">
          <table class="plain">
            <thead><tr><th scope="col">Datastore</th><th scope="col">Kind</th><th scope="col">Credentials</th><th scope="col"><span class="hidden">Notes</span></th></tr></thead>
            <tbody>
              {all.map((one) => (
                <tr key={one.name}>
                  <td class="machine">{one.name}</td><td>{one.type}</td><td>{one.credentials || "none"}</td>
                  <td>{one.is_default && <span class="tag">default</span>} {one.is_builtin && <span class="tag">built in</span>}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </Answered>
  );
}
