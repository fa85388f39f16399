/** What the nodes and ranks of a job use: a sentence, a strip of ranks over time, and a panel for each kind of resource. */

import { segment } from "../../api";
import { useAnswer, useInterval, useJobEvents, useThrottled } from "../../hooks";
import { Chart } from "../../parts/chart";
import { ENDED } from "../../parts/job-state";
import { Answered, Nothing } from "../../parts/placeholders";
import { setQuery, usePlace } from "../../router";
import type { Job, Resources, StoryLine } from "../../types";
import { HeatStrip } from "./heat-strip";
import { heatOf, MEASURES, measuresOf, panelsOf, type Measure, type ResourceChart } from "./resource-panels";

const INTERVAL_MS = 5000;
/** As often as the nodes measure. */
const SLOW_MS = 20_000;
const MANY = 150;
/** Of so many measurements the answers are long. */

export function ResourcesTab({ job }: { job: Job; story: StoryLine[] }) {
  const answer = useAnswer<Resources>(`/jobs/${segment(job.name)}/resources`);
  const count = answer.value?.series.length ?? 0;
  useJobEvents(job.name, "state", useThrottled(answer.reload, SLOW_MS));
  useInterval(() => ENDED.has(job.state) || answer.reload(), count > MANY ? SLOW_MS : INTERVAL_MS);
  return <Answered answer={answer}>{(resources) => (resources.series.length && resources.start ? <Panels job={job} resources={resources} /> : <NotMeasured />)}</Answered>;
}

const NotMeasured = () => <Nothing>What nodes and ranks use is measured every 5 s, and not at all where the job says <code>system_metrics: false</code>.</Nothing>;

function Panels({ job, resources }: { job: Job; resources: Resources }) {
  const { query } = usePlace();
  const start = Date.parse(resources.start!) / 1000;
  const x = Array.from({ length: resources.parts }, (_, n) => start + (n + 0.5) * resources.part_s);
  const measures = measuresOf(resources.series);
  const measure = measures.find((one) => one === query.get("strip")) ?? measures[0];
  return (
    <div class="resources">
      {resources.sentence && <p class={`resource-sentence${resources.idle.length ? " tone-wait" : ""}`}>{resources.sentence}</p>}
      {measure && (
        <section class="card" aria-label="Ranks over time">
          <header>
            <h2>{resources.series.some((one) => one.rank >= 0) ? "Ranks" : "GPUs"} over time</h2>
            <label class="select">
              <span class="hidden">What of them</span>
              <select value={measure} onChange={(event) => setQuery({ strip: event.currentTarget.value })}>
                {measures.map((one: Measure) => <option key={one} value={one}>{MEASURES[one]}</option>)}
              </select>
            </label>
          </header>
          <HeatStrip job={job.name} heat={heatOf(resources.series, resources.idle, measure)} start={start} partS={resources.part_s} />
        </section>
      )}
      {panelsOf(resources.series, x).map((panel) => (
        <section key={panel.title} class="resource-panel" aria-label={panel.title}>
          <h2>{panel.title}</h2>
          <div class="charts">{panel.charts.map((chart) => <PanelChart key={`${chart.title} ${chart.of}`} chart={chart} syncKey={`${job.name} resources`} />)}</div>
        </section>
      ))}
    </div>
  );
}

function PanelChart({ chart, syncKey }: { chart: ResourceChart; syncKey: string }) {
  return (
    <figure class="chart-card">
      <figcaption>
        <span class="chart-name">{chart.title} <span class="muted">of {chart.of}</span></span>
      </figcaption>
      <p class="resource-value"><strong class="number">{chart.header}</strong> <span class="muted number">{chart.note}</span></p>
      <Chart lines={chart.lines} band={chart.band} amounts={{ unit: chart.unit, top: chart.top }} isTime syncKey={syncKey}
        label={`${chart.title} of ${chart.of}: ${chart.header}; ${chart.note}`} />
    </figure>
  );
}
