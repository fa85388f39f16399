/** What is read: the story of a job, its file and its plan. */

import { useEffect } from "preact/hooks";
import { segment, serverNow } from "../../api";
import { between, dated, duration, exact } from "../../format";
import { useAnswer } from "../../hooks";
import { Answered } from "../../parts/placeholders";
import { StateIcon } from "../../parts/job-state";
import { CopyButton } from "../../parts/copy-button";
import { usePlace } from "../../router";
import type { Definition, Job, StoryLine } from "../../types";

export function StoryTab({ story }: { job: Job; story: StoryLine[] }) {
  const { query } = usePlace();
  const line = Number(query.get("line"));
  useEffect(() => document.getElementById(`story-${line}`)?.scrollIntoView({ block: "center" }), [line]);
  const start = story[0]?.at;
  return (
    <ol class="story">
      {story.map((one) => (
        <li key={one.n} id={`story-${one.n}`} class={one.n === line ? "marked" : ""}>
          <time dateTime={one.at} title={exact(one.at)}>{dated(one.at, serverNow())}</time>
          <span class="muted number">+{duration(start ? between(start, one.at) : 0)}</span>
          <span class="story-state"><StateIcon state={one.state} /> {one.state}</span>
          <span class="story-sentence">{one.sentence}</span>
        </li>
      ))}
    </ol>
  );
}

export function DefinitionTab({ job }: { job: Job; story: StoryLine[] }) {
  const answer = useAnswer<Definition>(`/jobs/${segment(job.name)}/definition`);
  return (
    <Answered answer={answer}>
      {(definition) => (
        <div class="columns">
          <section aria-label="Job file">
            <header class="section-head"><h2>Job file</h2><CopyButton text={definition.text} /></header>
            <pre class="machine block" tabIndex={0}>{definition.text}</pre>
          </section>
          <section aria-label="Plan">
            <header class="section-head"><h2>Plan</h2><CopyButton text={JSON.stringify(definition.plan, null, 2)} /></header>
            <PlanTable plan={definition.plan} />
          </section>
        </div>
      )}
    </Answered>
  );
}

function PlanTable({ plan }: { plan: Record<string, unknown> }) {
  const rows = Object.entries(plan).filter(([, value]) => !isEmpty(value));
  return (
    <table class="plan">
      <tbody>
        {rows.map(([key, value]) => (
          <tr key={key}>
            <th scope="row">{key}</th>
            <td class="machine">{typeof value === "object" ? <pre tabIndex={0}>{JSON.stringify(value, null, 1)}</pre> : String(value)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function isEmpty(value: unknown): boolean {
  if (value === null || value === "" || value === undefined) return true;
  return typeof value === "object" && Object.keys(value as object).length === 0;
}
