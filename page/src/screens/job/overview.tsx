/** A job at a glance: how good it is among its experiment's jobs, its main curves, its settings, and what it took. */

import { fileAddress, segment } from "../../api";
import { counted, duration, number, size, whole } from "../../format";
import { useAnswer, useEvents, useInterval, useJobEvents, useThrottled } from "../../hooks";
import { mainCards, withPinned } from "../../parts/metric-groups";
import { Answered, Nothing } from "../../parts/placeholders";
import { bestOf, groundOf } from "../../parts/primary-metric";
import { ENDED } from "../../parts/job-state";
import { jobHref } from "../../router";
import type { FileEntry, Job, Overview, SavedChart, Standing, StoryLine } from "../../types";
import { MetricChart } from "./metric-card";
import { chartsOf } from "./own-charts";

const INTERVAL_MS = 5000;
const MAX_IMAGES = 4;
const MAX_SETTINGS = 12;
const IMAGE = /\.(png|jpe?g|gif|webp|svg)$/i;
/** MLflow's client writes a small copy beside each image. */
const COPY = "+compressed.webp";
const RATE = /(samples|examples|images|tokens|items|it)[ _]?(per|\/)[ _]?s(ec(ond)?s?)?$|throughput/i;
const VIEW = { rank: "", axis: "step", isLog: false, smooth: 0 };

export function OverviewTab({ job }: { job: Job; story: StoryLine[] }) {
  const answer = useAnswer<Overview>(`/jobs/${segment(job.name)}/overview`);
  const reload = useThrottled(answer.reload, 2500);
  useEvents("jobs", (changes) => changes.jobs.some((one) => one.name === job.name) && reload());
  useJobEvents(job.name, "state", reload);
  useInterval(() => ENDED.has(job.state) || answer.reload(), INTERVAL_MS);
  return <Answered answer={answer}>{(overview) => <Glance job={job} overview={overview} />}</Answered>;
}

function Glance({ job, overview }: { job: Job; overview: Overview }) {
  const names = overview.series.map((one) => one.name);
  const charts = useAnswer<SavedChart[]>(chartsOf(job), {}, true);
  const pinned = (charts.value ?? []).filter((one) => one.kind === "lines").map((one) => ({ title: one.name, names: one.metrics.filter((name) => names.includes(name)) }));
  const cards = withPinned(pinned, mainCards(names, job.primary?.name));
  return (
    <div class="overview">
      <div class="overview-side">
        <Recovered job={job} overview={overview} />
        <Result job={job} overview={overview} />
        <Outputs job={job} />
        <Settings title="Parameters" table={overview.parameters} />
        <Settings title="Inputs" table={overview.inputs} />
        <Cost overview={overview} />
        {overview.note && overview.note !== job.description && <section class="card"><header><h2>Note of its run</h2></header><p class="note-text">{overview.note}</p></section>}
      </div>
      <div class="overview-charts">
        {cards.length === 0 && <Nothing>{ENDED.has(job.state) ? "It has logged no metrics." : "No metric is logged yet."} <code>drumbeat.log(loss=…, step=…)</code> or MLflow in its script does it.</Nothing>}
        <div class="charts">
          {cards.map((card) => <MetricChart key={card.names.join(" ")} job={job} card={card} series={overview.series} view={VIEW} isSmall />)}
        </div>
        {overview.series.length > cards.reduce((sum, card) => sum + card.names.length, 0) && (
          <p><a href={jobHref(job.name, { tab: "metrics" })}>All {counted(overview.series.length, "metric")}</a></p>
        )}
        <Images job={job} />
      </div>
    </div>
  );
}

const ENDINGS = ["th", "st", "nd", "rd"];

/** `1st`, `2nd`, `11th`. */
export function ordinal(rank: number): string {
  const tens = rank % 100;
  return `${whole(rank)}${tens > 10 && tens < 14 ? "th" : (ENDINGS[rank % 10] ?? "th")}`;
}

/** The difference to the run before, with its sign, and whether that is better. */
export function differenceOf({ goal, value, before }: Standing): string {
  if (!before) return "";
  const difference = value - before.value;
  if (difference === 0) return "as good";
  const isBetter = (goal === "maximize") === difference > 0;
  return `${difference > 0 ? "+" : "−"}${number(Math.abs(difference))}, ${isBetter ? "better" : "worse"}`;
}

function Result({ job, overview }: { job: Job; overview: Overview }) {
  const { primary } = job;
  if (!primary) return null;
  const { standing } = overview;
  const rate = overview.series.find((one) => RATE.test(one.name));
  return (
    <section class="card">
      <header><h2 title={groundOf(primary)}>{primary.source === "guess" || !primary.source ? "" : "★ "}{primary.name}</h2></header>
      <p class="overview-value"><strong class="number">{number(primary.value)}</strong> <span class="muted">at step {whole(primary.step)}</span></p>
      <dl class="sheet">
        {bestOf(primary) && <div><dt class="muted">best</dt><dd class="number">{bestOf(primary).slice("best ".length)}</dd></div>}
        {standing && standing.of > 1 && (
          <div>
            <dt class="muted">rank</dt>
            <dd>{ordinal(standing.rank)} of {whole(standing.of)}{standing.rank > 1 && <>; best {number(standing.best.value)}, <a href={jobHref(standing.best.job)}>{standing.best.job}</a></>}</dd>
          </div>
        )}
        {standing?.before && (
          <div><dt class="muted">before</dt><dd>{differenceOf(standing)} than {number(standing.before.value)} of <a href={jobHref(standing.before.job)}>{standing.before.job}</a></dd></div>
        )}
        {rate && <div><dt class="muted">speed</dt><dd class="number">{number(rate.last.value)} <span class="muted">{rate.name}</span></dd></div>}
      </dl>
      {primary.source !== "experiment" && primary.source !== "job" && <p class="muted chart-note">{groundOf(primary)}</p>}
    </section>
  );
}

/** What an exception said, of the sentence of a verdict: the rest says which rank it was. */
export function reasonOf(sentence: string): string {
  return /exit code \d+: (.+)$/.exec(sentence)?.[1] ?? sentence;
}

const times = (count: number): string => (count === 1 ? "once" : count === 2 ? "twice" : `${whole(count)} times`);

function Recovered({ job, overview }: { job: Job; overview: Overview }) {
  const last = job.failures.at(-1);
  if (!last || job.state === "failed") return null;
  return (
    <section class="card tone-wait">
      <p>
        recovered {times(job.failures.length)} from {job.failures.length > 1 ? "failures, last " : ""}{reasonOf(last.verdict.sentence)}, {duration(overview.lost_s)} lost;{" "}
        <a href={jobHref(job.name, { tab: "story" })}>history</a>
      </p>
    </section>
  );
}

function Settings({ title, table }: { title: string; table: Record<string, string> }) {
  const rows = Object.entries(table);
  if (!rows.length) return null;
  const list = (some: [string, string][]) => (
    <dl class="glance-list">{some.map(([key, value]) => <div key={key}><dt class="muted">{key}</dt><dd class="machine" title={value}>{value}</dd></div>)}</dl>
  );
  return (
    <section class="card">
      <header><h2>{title}</h2></header>
      {list(rows.slice(0, MAX_SETTINGS))}
      {rows.length > MAX_SETTINGS && <details><summary>{rows.length - MAX_SETTINGS} more</summary>{list(rows.slice(MAX_SETTINGS))}</details>}
    </section>
  );
}

function Outputs({ job }: { job: Job }) {
  const own = job.outputs.filter((one) => one.place !== "to_come");
  if (!own.length) return null;
  return (
    <section class="card">
      <header><h2>Outputs</h2></header>
      <dl class="glance-list">
        {own.map((one) => (
          <div key={one.name}>
            <dt class="muted">{one.name}</dt>
            <dd><a href={jobHref(job.name, { tab: "outputs" })}>{one.asset || one.uri || one.name}</a>{one.files > 0 && <span class="muted"> {size(one.size)}</span>}</dd>
          </div>
        ))}
      </dl>
    </section>
  );
}

/** Of a time, in hours, as one reads it. */
export const hours = (value: number): string => (value < 0.001 ? "less than 0.001" : value < 0.1 ? value.toFixed(3) : value < 10 ? value.toFixed(2) : whole(Math.round(value)));

function Cost({ overview: { use, slot_hours, gpu_hours, held_s } }: { overview: Overview }) {
  const rows: [string, string][] = [
    ["nodes held", held_s > 0 ? `${duration(held_s)}: ${gpu_hours > 0 ? `${hours(gpu_hours)} GPU-hours, ` : ""}${hours(slot_hours)} slot-hours` : ""],
    ["CPU", use.cpu_cores == null ? "" : `${use.cpu_cores.toFixed(2)} cores on average`],
    ["memory", use.peak_memory_mib == null ? "" : `${size(use.peak_memory_mib * 2 ** 20)} at most in a rank`],
    ["GPUs", use.gpu_percent == null ? "" : `${use.gpu_percent.toFixed(0)} % busy on average`],
    ["GPU memory", use.peak_gpu_memory_mib == null ? "" : `${size(use.peak_gpu_memory_mib * 2 ** 20)} at most of a GPU`],
  ];
  const known = rows.filter(([, text]) => text);
  if (!known.length) return null;
  return (
    <section class="card">
      <header><h2>What it took</h2></header>
      <dl class="glance-list">{known.map(([key, text]) => <div key={key}><dt class="muted">{key}</dt><dd>{text}</dd></div>)}</dl>
    </section>
  );
}

function Images({ job }: { job: Job }) {
  const files = useAnswer<FileEntry[]>(ENDED.has(job.state) ? `/jobs/${segment(job.name)}/files` : undefined, {}, true);
  const images = (files.value ?? []).filter((one) => IMAGE.test(one.path) && !one.path.endsWith(COPY));
  if (!images.length) return null;
  return (
    <section>
      <h2>Images</h2>
      <div class="overview-images">
        {images.slice(0, MAX_IMAGES).map((one) => (
          <a key={one.path} href={jobHref(job.name, { tab: "outputs", file: one.path })}>
            <img src={fileAddress(job.name, one.path)} alt={one.path} loading="lazy" />
          </a>
        ))}
      </div>
      {images.length > MAX_IMAGES && <p><a href={jobHref(job.name, { tab: "outputs" })}>All {counted(images.length, "image")}</a></p>}
    </section>
  );
}
