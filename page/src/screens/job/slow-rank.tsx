/** The rank that the others seem to wait for, in a box of its own above the tabs while a job runs. */

import { useRef } from "preact/hooks";
import { segment } from "../../api";
import { cores } from "../../format";
import { useAnswer, useEvents, useInterval, useJobEvents, useThrottled } from "../../hooks";
import { ENDED, StateIcon } from "../../parts/job-state";
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
    <Box job={job} sentence={slow.sentence}>
      The waits in the ranks' stacks show it (<Ago at={slow.at} />).
    </Box>
  );
}

function Box({ job, sentence, children }: { job: Job; sentence: string; children: preact.ComponentChildren }) {
  return (
    <div class="cause tone-wait" role="status">
      <p class="cause-sentence"><StateIcon state="slow" /> {sentence}</p>
      <p class="muted">{children} <a href={jobHref(job.name, { tab: "ranks" })}>All ranks</a></p>
    </div>
  );
}

function BusiestRank({ job }: { job: Job }) {
  const busiest = useBusiest(job, false);
  if (!busiest) return null;
  return <Box job={job} sentence={sayBusiest(busiest)}>Judged by how much of the processors each rank uses.</Box>;
}

/** The same in a list of jobs, as one line. */
export function SlowWord({ job }: { job: Job }) {
  return job.has_slow_rank ? <Word>a rank is slow: the others wait for it</Word> : <BusiestWord job={job} />;
}

function BusiestWord({ job }: { job: Job }) {
  const busiest = useBusiest(job, true);
  return busiest ? <Word>{sayBusiest(busiest)}</Word> : null;
}

const Word = ({ children }: { children: preact.ComponentChildren }) => (
  <span class="slow-word tone-wait"><StateIcon state="slow" /> {children}</span>
);

interface Cores { rank: number; value: number }

/** The busiest rank and the next one, while the others seem to wait for the first. isLate: asked for behind the screen. */
export function useBusiest(job: Job, isLate: boolean): [Cores, Cores] | undefined {
  const metrics = useAnswer<Metrics>(`/jobs/${segment(job.name)}/metrics`, {}, isLate);
  const reload = useThrottled(metrics.reload, PAUSE_MS);
  useJobEvents(job.name, "state", reload);
  useEvents("jobs", (changes) => changes.jobs.some((one) => one.name === job.name) && reload());
  useInterval(() => ENDED.has(job.state) || metrics.reload(), PAUSE_MS);
  const used = comparedCores(metrics.value?.series ?? []);
  const held = useRef<{ pair: [Cores, Cores]; until: number } | undefined>(undefined);
  if (busiestOf(job, used) !== undefined) held.current = { pair: [used[0]!, used[1]!], until: Date.now() + HELD_MS };
  return held.current && held.current.until >= Date.now() && job.state === "running" ? held.current.pair : undefined;
}

export const sayBusiest = ([first, next]: [Cores, Cores]): string =>
  `rank ${first.rank} looks slow: it computes (${cores(first.value)} cores) while the others mostly wait, it seems for it (at most ${cores(next.value)} cores)`;

/** What each rank uses, the most first; none in a job with GPUs, where a rank that waits in NCCL polls and uses a core. */
export function comparedCores(series: Series[]): Cores[] {
  if (series.some((one) => one.name.startsWith("system/gpu_"))) return [];
  return series.filter((one) => one.name === "system/cpu_cores" && one.rank >= 0 && one.count > 1)
    .map((one) => ({ rank: one.rank, value: Number(one.last.value) })).sort((a, b) => b.value - a.value);
}

/** The rank that the others of a running job seem to wait for: they use far less processor time. */
export function busiestOf(job: Pick<Job, "state" | "world_size">, used: Cores[]): number | undefined {
  if (job.state !== "running" || job.world_size < 2 || used.length < job.world_size) return undefined;
  const [first, second] = [used[0]!, used[1]!];
  return first.value > Math.max(second.value, MIN_CORES) * BUSY_LEAD ? first.rank : undefined;
}
