/** Curves of a job's metrics in sections, with one line under the pointer for all. */

import { useState } from "preact/hooks";
import { segment } from "../../api";
import { counted, duration, exact, number, whole } from "../../format";
import { useAnswer, useEvents, useInterval, useJobEvents, useThrottled } from "../../hooks";
import { cardsOf, foundCards, type MetricCard, sectionsOf } from "../../parts/metric-groups";
import { Dialog } from "../../parts/dialog";
import { Answered, Nothing } from "../../parts/placeholders";
import { ENDED } from "../../parts/job-state";
import { setQuery, usePlace } from "../../router";
import type { Job, Metrics, SavedChart, Series, StoryLine } from "../../types";
import { EACH, MAX_RANKS, MetricChart, OF_METRIC, SYSTEM, type View } from "./metric-card";
import { drawnAs, SizeButtons, useCardSizes } from "./card-sizes";
import { chartsOf, OwnCharts, PinButton } from "./own-charts";

const MAX_CHARTS = 24;
const INTERVAL_MS = 5000;
/** As often as the nodes measure: events come of the job's first metric alone. */

interface TabProps { job: Job; story: StoryLine[] }

export function MetricsTab({ job }: TabProps) {
  const answer = useAnswer<Metrics>(`/jobs/${segment(job.name)}/metrics`);
  const reload = useThrottled(answer.reload, 2500);
  useEvents("jobs", (changes) => changes.jobs.some((one) => one.name === job.name) && reload());
  useJobEvents(job.name, "state", reload);
  useInterval(() => ENDED.has(job.state) || answer.reload(), INTERVAL_MS);
  return (
    <Answered answer={answer}>
      {(metrics) => {
        const own = metrics.series.filter((one) => !one.name.startsWith(SYSTEM));
        return own.length ? <Grid job={job} series={own} params={metrics.params} /> : <NoMetrics job={job} />;
      }}
    </Answered>
  );
}

function NoMetrics({ job }: { job: Job }) {
  return (
    <Nothing>
      {ENDED.has(job.state) ? "It has logged no metrics." : "No metric is logged yet."} <code>drumbeat.log(loss=…, step=…)</code> or
      MLflow in its script does it.
    </Nothing>
  );
}

function Grid({ job, series, params }: { job: Job; series: Series[]; params: Record<string, string> }) {
  const { query } = usePlace();
  const ranks = [...new Set(series.map((one) => one.rank))].sort((a, b) => a - b);
  const names = [...new Set(series.map((one) => one.name))];
  const text = query.get("find") ?? "";
  const found = foundCards(cardsOf(names), text);
  const sections = sectionsOf(found);
  const view = viewOf(query);
  const { rank } = view;
  const charts = useAnswer<SavedChart[]>(chartsOf(job), {}, true);
  const own = (charts.value ?? []).filter((one) => one.metrics.some((name) => names.includes(name)));
  const pinned = new Map(own.filter((one) => one.kind === "lines").map((one) => [one.metrics.join("\n"), one]));
  const sizes = useCardSizes(job);
  const [full, setFull] = useState<MetricCard>();
  const buttons = (card: MetricCard) => (
    <>
      <PinButton job={job} card={card} pinned={pinned.get(card.names.join("\n"))} reload={charts.reload} />
      <SizeButtons title={card.title} sizes={sizes} />
      <button type="button" class="quiet" aria-label={`${card.title} in full`} title="In full" onClick={() => setFull(card)}>⤢</button>
    </>
  );
  return (
    <div class="curves">
      <Bar view={view} names={names} ranks={ranks} text={text} />
      {rank !== "" && rank !== EACH && !ranks.includes(Number(rank)) && <Nothing>There is no such rank: it has logged nothing, or isn't one of this job.</Nothing>}
      {text && !found.length && <Nothing>No metric's name has <code>{text}</code>.</Nothing>}
      <OwnCharts job={job} charts={text ? [] : own} series={series} names={names} view={view} sizes={sizes} reload={charts.reload} />
      {full && (
        <Dialog title={full.title} isWide="full" onClose={() => setFull(undefined)}>
          <MetricChart job={job} card={full} series={series} view={view} height={Math.max(240, innerHeight - 260)} />
          <div class="buttons"><button type="button" onClick={() => setFull(undefined)}>Back</button></div>
        </Dialog>
      )}
      {sections.map((section) => (
        <Section key={section.prefix} experiment={job.experiment} title={sections.length > 1 ? section.prefix || "others" : ""} cards={section.cards} isSearch={text !== ""}>
          {(card) => <MetricChart key={card.names.join(" ")} job={job} card={card} series={series} view={view} {...drawnAs(sizes.of(card.title))}>{buttons(card)}</MetricChart>}
        </Section>
      ))}
      {Object.keys(params).length > 0 && <Params params={params} />}
    </div>
  );
}

/** What the address says of how the charts are drawn. */
function viewOf(query: URLSearchParams): View {
  const hidden = new Set(query.getAll("hide"));
  const zoom = (query.get("zoom") ?? "").split("_").map(Number);
  return {
    rank: query.get("of") ?? "", axis: query.get("axis") ?? "step", isLog: query.has("log"), smooth: Number(query.get("smooth") ?? 0),
    zoom: zoom.length === 2 && zoom.every(Number.isFinite) && zoom[0]! < zoom[1]! ? (zoom as [number, number]) : undefined,
    hidden,
    onToggle: (label) => setQuery({ hide: hidden.has(label) ? [...hidden].filter((one) => one !== label) : [...hidden, label] }),
    onZoom: (chosen) => setQuery({ zoom: chosen ? chosen.map((one) => String(Number(one.toPrecision(12)))).join("_") : "" }),
  };
}

function Bar({ view, names, ranks, text }: { view: View; names: string[]; ranks: number[]; text: string }) {
  const { rank, axis, isLog, smooth, zoom } = view;
  return (
    <div class="filters">
      <input type="search" class="find-metric" value={text} placeholder="Find metrics" aria-label="Find metrics by a part of their names, or a regular expression"
        onInput={(event) => setQuery({ find: event.currentTarget.value })} />
      <label class="select">
        <span class="hidden">Of which rank</span>
        <select value={rank} onChange={(event) => setQuery({ of: event.currentTarget.value })}>
          <option value="">all ranks</option>
          <option value={EACH}>{ranks.length > MAX_RANKS ? `each of the first ${MAX_RANKS} ranks` : "each rank"}</option>
          {ranks.map((one) => <option key={one} value={one}>{one >= 0 ? `rank ${one}` : `node ${-1 - one}`}</option>)}
        </select>
      </label>
      <label class="select">
        <span>over</span>
        <select value={axis} onChange={(event) => setQuery({ axis: event.currentTarget.value, zoom: "" })}>
          <option value="step">step</option>
          <option value="relative">time since the start</option>
          <option value="time">time</option>
          <optgroup label="a metric">{names.map((name) => <option key={name} value={OF_METRIC + name}>{name}</option>)}</optgroup>
        </select>
      </label>
      <label class="range">
        <span>smooth</span>
        <input type="range" min="0" max="0.95" step="0.05" value={smooth}
          onInput={(event) => setQuery({ smooth: event.currentTarget.value === "0" ? "" : event.currentTarget.value })} />
      </label>
      <label class="check">
        <input type="checkbox" checked={isLog} onChange={(event) => setQuery({ log: event.currentTarget.checked ? "1" : "" })} />
        logarithmic
      </label>
      {zoom && <button type="button" onClick={() => setQuery({ zoom: "" })}>Reset zoom <span class="muted number">{zoom.map((x) => zoomText(x, axis)).join(" – ")}</span></button>}
      <span class="grow" />
      <span class="muted">{counted(names.length, "metric")}, {counted(ranks.length, "rank")}{zoom ? "" : "; drag over a chart to zoom"}</span>
    </div>
  );
}

function zoomText(x: number, axis: string): string {
  if (axis === "time") return exact(x * 1000);
  if (axis === "relative") return duration(x);
  return axis.startsWith(OF_METRIC) ? number(x) : whole(Math.round(x));
}

const FOLDED = "drumbeat.folded-sections";
/** The sections that this browser's person has folded, each with its experiment. */

function foldedSections(): string[] {
  try {
    return JSON.parse(localStorage.getItem(FOLDED) ?? "[]") as string[];
  } catch {
    return [];
  }
}

/** title: "" = it is the only one, and can't be folded. isSearch: what was looked for is shown in any case. */
function Section({ experiment, title, cards, isSearch, children }: {
  experiment: string; title: string; cards: MetricCard[]; isSearch: boolean; children: (card: MetricCard) => preact.JSX.Element;
}) {
  const key = `${experiment}/${title}`;
  const [isFolded, setFolded] = useState(() => title !== "" && foldedSections().includes(key));
  const [limit, setLimit] = useState(MAX_CHARTS);
  const isShown = isSearch || !isFolded;
  const fold = () => {
    const others = foldedSections().filter((one) => one !== key);
    localStorage.setItem(FOLDED, JSON.stringify(isFolded ? others : [...others, key]));
    setFolded(!isFolded);
  };
  return (
    <section class="metric-section" aria-label={title || undefined}>
      {title && (
        <h2><button type="button" class="quiet" aria-expanded={isShown} onClick={fold}>{isShown ? "▾" : "▸"} {title} <span class="muted">{counted(cards.length, "chart")}</span></button></h2>
      )}
      {isShown && <div class="charts">{cards.slice(0, limit).map(children)}</div>}
      {isShown && cards.length > limit && (
        <div class="buttons"><button type="button" onClick={() => setLimit(limit + MAX_CHARTS)}>Show more metrics</button></div>
      )}
    </section>
  );
}

function Params({ params }: { params: Record<string, string> }) {
  return (
    <section aria-label="Parameters">
      <h2>Parameters</h2>
      <table class="plan">
        <tbody>
          {Object.entries(params).map(([key, value]) => (
            <tr key={key}><th scope="row">{key}</th><td class="machine">{value}</td></tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}
