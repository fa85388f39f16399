/** When several jobs waited and ran, over each other: a bar for each, as long as it lasted. */

import { serverNow } from "../api";
import { dated, duration } from "../format";
import { useNow } from "../hooks";
import { jobHref } from "../router";
import type { Job } from "../types";
import { ENDED, StateIcon, tone } from "./job-state";

/** job: "" = it has none to go to. Times in milliseconds; start: null = it hasn't begun; end: null = it goes on. */
export interface Span { name: string; job: string; state: string; submitted: number; start: number | null; end: number | null }

/** Parts of the whole, from 0 to 1. seconds: for how long it ran. */
export interface Bar { span: Span; from: number; waited: number; ran: number; seconds: number }

export function spanOf(job: Pick<Job, "name" | "state" | "submitted_at" | "started_at" | "ended_at">, name = job.name): Span {
  const time = (at: string | null): number | null => (at ? Date.parse(at) : null);
  return { name, job: job.name, state: job.state, submitted: Date.parse(job.submitted_at), start: time(job.started_at), end: time(job.ended_at) };
}

/** The bars, in the order in which the jobs came; total: seconds from the first of them to the last. */
export function barsOf(spans: Span[], now: number): { bars: Bar[]; begin: number; total: number } {
  const endOf = (span: Span): number => span.end ?? Math.max(now, span.start ?? span.submitted);
  const begin = Math.min(...spans.map((span) => span.submitted));
  const total = Math.max(...spans.map(endOf), begin + 1) - begin;
  const bars = spans.map((span) => {
    const start = Math.max(span.start ?? endOf(span), span.submitted);
    return { span, from: (span.submitted - begin) / total, waited: (start - span.submitted) / total, ran: (endOf(span) - start) / total, seconds: span.start === null ? 0 : (endOf(span) - span.start) / 1000 };
  });
  return { bars: [...bars].sort((a, b) => a.from - b.from), begin, total: total / 1000 };
}

const TICKS = [0, 0.25, 0.5, 0.75, 1];
const MAX_BARS = 100;

export function Timeline({ spans, title, note = "" }: { spans: Span[]; title: string; note?: string }) {
  const isLive = spans.some((span) => !ENDED.has(span.state as Job["state"]));
  const now = useNow(isLive);
  if (!spans.length) return null;
  const { bars, begin, total } = barsOf(spans, now);
  const percent = (share: number): string => `${share * 100}%`;
  const ran = bars.reduce((sum, bar) => sum + bar.seconds, 0);
  return (
    <figure class="card timeline" aria-label={title}>
      <figcaption class="section-head"><h3>{title}</h3><span class="muted">{duration(total)} from {dated(begin, serverNow())}; {duration(ran)} of work{note}</span></figcaption>
      <ol>
        {bars.slice(0, MAX_BARS).map(({ span, from, waited, ran: part, seconds }) => (
          <li key={span.name}>
            <span class="timeline-name"><StateIcon state={span.state as Job["state"]} /> {span.job ? <a href={jobHref(span.job)}>{span.name}</a> : span.name}</span>
            <span class={`timeline-track tone-${tone(span.state as Job["state"])}`} aria-hidden="true">
              <span class="timeline-wait" style={{ left: percent(from), width: percent(waited) }} />
              <span class="timeline-run" data-seconds={seconds} style={{ left: percent(from + waited), width: percent(part) }} />
            </span>
            <span class="number timeline-took">{span.start === null ? "–" : duration(seconds)}</span>
          </li>
        ))}
      </ol>
      <p class="timeline-axis muted number" aria-hidden="true">{TICKS.map((tick) => <span key={tick}>{tick ? duration(total * tick) : "0"}</span>)}</p>
      {bars.length > MAX_BARS && <p class="muted chart-note">The first {MAX_BARS} of {bars.length}.</p>}
    </figure>
  );
}
