/** Charts that users have made for an experiment: drawn for each of its jobs, for everyone. */

import { useState } from "preact/hooks";
import { act, ApiError, segment } from "../../api";
import { counted, number } from "../../format";
import { useMayAct } from "../../hooks";
import { Dialog } from "../../parts/dialog";
import type { MetricCard } from "../../parts/metric-groups";
import { Refused } from "../../parts/placeholders";
import type { CardSize, Job, SavedChart, Series } from "../../types";
import { drawnAs, SizeButtons, type Sizes } from "./card-sizes";
import { MetricChart, OF_METRIC, type View } from "./metric-card";

export const chartsOf = (job: Pick<Job, "experiment">): string => `/experiments/${segment(job.experiment)}/charts`;
const pathOf = (job: Job, name: string): string => `${chartsOf(job)}/${segment(name)}`;

const asError = (refused: unknown): ApiError => (refused instanceof ApiError ? refused : new ApiError(0, String(refused)));

/** Keeps a card among the experiment's own charts, and takes it away again. */
export function PinButton({ job, card, pinned, reload }: { job: Job; card: MetricCard; pinned: SavedChart | undefined; reload: () => void }) {
  const mayAct = useMayAct();
  const [error, setError] = useState("");
  if (!mayAct) return null;
  const toggle = () => {
    setError("");
    const done = pinned ? act("DELETE", pathOf(job, pinned.name)) : act("PUT", pathOf(job, card.title), {}, { kind: "lines", metrics: card.names });
    done.then(reload, (refused) => setError(asError(refused).what));
  };
  return (
    <>
      <button type="button" class="quiet" aria-pressed={pinned !== undefined} aria-label={`Pin ${card.title}`} title={pinned ? `Pinned for all jobs of ${job.experiment}: take it away` : `Pin it for all jobs of ${job.experiment}`} onClick={toggle}>{pinned ? "pinned" : "pin"}</button>
      {error && <span class="not-finite" role="alert">{error}</span>}
    </>
  );
}

export function OwnCharts({ job, charts, series, names, view, sizes, reload }: {
  job: Job; charts: SavedChart[]; series: Series[]; names: string[]; view: View; sizes: Sizes; reload: () => void;
}) {
  const mayAct = useMayAct();
  const [isMaking, setMaking] = useState(false);
  const [error, setError] = useState<ApiError>();
  const remove = (chart: SavedChart) => {
    setError(undefined);
    act("DELETE", pathOf(job, chart.name)).then(reload, (refused) => setError(asError(refused)));
  };
  if (!mayAct && !charts.length) return null;
  return (
    <section class="metric-section own-charts" aria-label={`Charts of ${job.experiment}`}>
      {charts.length > 0 && <h2>{`Charts of ${job.experiment}`}</h2>}
      {error && <Refused error={error} />}
      {charts.length > 0 && (
        <div class="charts">
          {charts.map((chart) => (
            <OwnChart key={chart.name} job={job} chart={chart} series={series} view={view} size={sizes.of(chart.name)}>
              <SizeButtons title={chart.name} sizes={sizes} />
              {mayAct && <button type="button" class="quiet" aria-label={`Delete the chart ${chart.name}`} title={`Delete it for all jobs of ${job.experiment}; ${chart.person || "a user"} made it`} onClick={() => remove(chart)}>×</button>}
            </OwnChart>
          ))}
        </div>
      )}
      {mayAct && <div class="buttons"><button type="button" onClick={() => setMaking(true)}>Make a chart…</button></div>}
      {isMaking && <MakeChart job={job} names={names} onClose={() => setMaking(false)} onMade={reload} />}
    </section>
  );
}

function OwnChart({ job, chart, series, view, size, children }: { job: Job; chart: SavedChart; series: Series[]; view: View; size: CardSize; children: preact.ComponentChildren }) {
  const drawn = drawnAs(size);
  const card: MetricCard = { title: chart.name, names: chart.metrics.filter((name) => series.some((one) => one.name === name)) };
  if (chart.kind === "bars") return <BarsCard card={card} series={series} {...drawn}>{children}</BarsCard>;
  if (chart.kind === "lines") return <MetricChart job={job} card={card} series={series} view={view} {...drawn}>{children}</MetricChart>;
  const { zoom: _zoom, onZoom: _onZoom, ...rest } = view;
  return <MetricChart job={job} card={card} series={series} view={{ ...rest, axis: OF_METRIC + chart.x, smooth: 0 }} {...drawn} isScatter>{children}</MetricChart>;
}

export interface BarRow { label: string; value: number | string; share: number }

/** The last value of each metric and rank, and its share of the largest one. */
export function barsOf(series: Series[], names: string[]): BarRow[] {
  const own = names.flatMap((name) => series.filter((one) => one.name === name).sort((a, b) => a.rank - b.rank));
  const hasRanks = new Set(own.map((one) => one.rank)).size > 1;
  const rankName = (rank: number) => (rank >= 0 ? `rank ${rank}` : `node ${-1 - rank}`);
  const sizes = own.map((one) => (typeof one.last.value === "number" ? Math.abs(one.last.value) : 0));
  const most = Math.max(...sizes, 0);
  return own.map((one, n) => ({
    label: [names.length > 1 ? one.name : "", hasRanks ? rankName(one.rank) : ""].filter(Boolean).join(" ") || one.name,
    value: one.last.value, share: most ? sizes[n]! / most : 0,
  }));
}

function BarsCard({ card, series, isWide, height, children }: { card: MetricCard; series: Series[]; isWide: boolean; height?: number; children: preact.ComponentChildren }) {
  const rows = barsOf(series, card.names);
  if (!rows.length) return null;
  return (
    <figure class={`chart-card${isWide ? " is-wide" : ""}`}>
      <figcaption>
        <span class="chart-name" title={card.names.join(", ")}>{card.title}</span>
        <span class="muted">last values</span>
        <span class="chart-files">{children}</span>
      </figcaption>
      <div class="bars" {...(height ? { style: { maxHeight: `${height}px` } } : {})} role="group" tabIndex={0} aria-label={`${card.title}, ${counted(rows.length, "value")}`}>
        {rows.map((row) => (
          <div key={row.label}>
            <span class="muted">{row.label}</span>
            <svg class={`bar-of${typeof row.value === "number" && row.value < 0 ? " below" : ""}`} width={`${Math.round(row.share * 100)}%`} height="12" aria-hidden="true" />
            <span class="number">{number(row.value)}</span>
          </div>
        ))}
      </div>
    </figure>
  );
}

const KINDS: [SavedChart["kind"], string][] = [["lines", "lines over steps"], ["scatter", "points over another metric"], ["bars", "bars of the last values, by rank"]];

function MakeChart({ job, names, onClose, onMade }: { job: Job; names: string[]; onClose: () => void; onMade: () => void }) {
  const [name, setName] = useState("");
  const [kind, setKind] = useState<SavedChart["kind"]>("lines");
  const [metrics, setMetrics] = useState<string[]>([]);
  const [x, setX] = useState(names[0] ?? "");
  const [error, setError] = useState<ApiError>();
  const toggle = (metric: string) => setMetrics(metrics.includes(metric) ? metrics.filter((one) => one !== metric) : [...metrics, metric]);
  return (
    <Dialog title="Make a chart" onClose={onClose} isWide>
      <form class="run-again" onSubmit={(event) => {
        event.preventDefault();
        act("PUT", pathOf(job, name.trim()), {}, { kind, metrics, x: kind === "scatter" ? x : "" }).then(() => {
          onMade();
          onClose();
        }, (refused) => setError(asError(refused)));
      }}>
        <p class="muted">It is drawn for every job of {job.experiment}, for everyone.</p>
        <div class="run-fields">
          <label class="run-field"><span>Name</span><input required maxLength={100} value={name} onInput={(event) => setName(event.currentTarget.value)} /></label>
          <label class="run-field">
            <span>Kind</span>
            <select value={kind} onChange={(event) => setKind(event.currentTarget.value as SavedChart["kind"])}>
              {KINDS.map(([one, title]) => <option key={one} value={one}>{title}</option>)}
            </select>
          </label>
          {kind === "scatter" && (
            <label class="run-field">
              <span>Over</span>
              <select value={x} onChange={(event) => setX(event.currentTarget.value)}>{names.map((one) => <option key={one} value={one}>{one}</option>)}</select>
            </label>
          )}
        </div>
        <fieldset>
          <legend>Metrics</legend>
          <div class="metric-choice" tabIndex={0} role="group" aria-label="Metrics">
            {names.map((one) => <label key={one} class="check"><input type="checkbox" checked={metrics.includes(one)} onChange={() => toggle(one)} /> {one}</label>)}
          </div>
        </fieldset>
        {error && <Refused error={error} />}
        <div class="buttons">
          <button type="button" onClick={onClose}>Back</button>
          <button type="submit" class="main" disabled={!metrics.length || !name.trim()}>Save</button>
        </div>
      </form>
    </Dialog>
  );
}
