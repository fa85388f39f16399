/** The rank that the others seem to wait for, told above the tabs while a job runs. */

import { useRef } from "preact/hooks";
import { segment } from "../../api";
import { number } from "../../format";
import { useAnswer, useEvents, useThrottled } from "../../hooks";
import { jobHref } from "../../router";
import { Ago } from "../../parts/time";
import type { Job, Metrics, Series, StoryLine } from "../../types";
import { slowOf } from "./hang-and-start";

const BUSY_LEAD = 2;
/** A rank that uses so many times the processor time of each other is the one that they wait for. */
const MIN_CORES = 0.02;
/** What a rank uses that does nothing. */
const PAUSE_MS = 5000;
/** As often as the nodes measure. */
const HELD_MS = 60_000;
/** How long a rank stays named after it was last found: one measurement may miss it. */

/** What the story says of it, with its reason; before that, what the use of processors tells. */
export function SlowRank({ job, story }: { job: Job; story: StoryLine[] }) {
  const slow = slowOf(job, story);
  if (!slow) return <BusiestRank job={job} />;
  return (
    <p class="note tone-wait">
      {slow.sentence} <span class="muted">(<Ago at={slow.at} />)</span> <a href={jobHref(job.name, { tab: "ranks" })}>All ranks</a>
    </p>
  );
}

function BusiestRank({ job }: { job: Job }) {
  const metrics = useAnswer<Metrics>(`/jobs/${segment(job.name)}/metrics`);
  useEvents("state", useThrottled(metrics.reload, PAUSE_MS));
  const cores = coresOf(metrics.value?.series ?? []);
  const held = useRef<{ cores: Cores[]; until: number } | undefined>(undefined);
  if (busiestOf(job, cores) !== undefined) held.current = { cores, until: Date.now() + HELD_MS };
  if (!held.current || held.current.until < Date.now()) return null;
  const [slow, next] = held.current.cores;
  return (
    <p class="note tone-wait">
      <a href={jobHref(job.name, { tab: "ranks" })}>Rank {slow!.rank}</a> looks slow: the others wait for it. It uses {number(slow!.value)} cores,
      and each of them at most {number(next!.value)}.
    </p>
  );
}

interface Cores { rank: number; value: number }

/** What each rank uses, the most first. */
export function coresOf(series: Series[]): Cores[] {
  return series.filter((one) => one.name === "system/cpu_cores" && one.rank >= 0 && one.count > 1)
    .map((one) => ({ rank: one.rank, value: Number(one.last.value) })).sort((a, b) => b.value - a.value);
}

/** The rank that the others of a running job seem to wait for: they use far less processor time. */
export function busiestOf(job: Pick<Job, "state" | "world_size">, cores: Cores[]): number | undefined {
  if (job.state !== "running" || job.world_size < 2 || cores.length < job.world_size) return undefined;
  const [first, second] = [cores[0]!, cores[1]!];
  return first.value > Math.max(second.value, MIN_CORES) * BUSY_LEAD ? first.rank : undefined;
}
