/** The curves of all trials of a sweep over each other; the best one stands out. */

import { useEffect, useMemo, useRef } from "preact/hooks";
import { counted, drawable } from "../../format";
import { useAnswer, useThrottled } from "../../hooks";
import { Chart, type ChartLine } from "../../parts/chart";
import { spanOf, Timeline } from "../../parts/timeline";
import { Nothing, Refused } from "../../parts/placeholders";
import { BestSoFar } from "../../parts/run-panels/best-so-far";
import type { Job, JobCurve, StoryLine, Sweep } from "../../types";
import { setOf, trialCurvesOf, useSweep, useTrialJobs } from "./sweep-requests";

export function TrialCurvesTab({ job }: { job: Job; story: StoryLine[] }) {
  const sweep = useSweep(job);
  const curves = useAnswer<JobCurve[]>(...trialCurvesOf(job.name));
  const reload = useThrottled(curves.reload, 3000);
  // The first curves come beside the first answer: they are read again when the sweep has changed since.
  const known = useRef(sweep.value);
  useEffect(() => {
    if (known.current && known.current !== sweep.value) reload();
    known.current = sweep.value;
  }, [sweep.value]);
  const best = sweep.value?.trials.find((trial) => trial.number === sweep.value?.best)?.job;
  const { others, lines } = useMemo(() => {
    const all: ChartLine[] = (curves.value ?? []).map((curve) => ({ label: curve.job, x: curve.steps, y: curve.values.map(drawable) }));
    return { others: all.filter((line) => line.label !== best), lines: all.filter((line) => line.label === best) };
  }, [curves.value, best]);
  const set = useMemo(() => sweep.value && setOf(sweep.value), [sweep.value]);
  const metric = curves.value?.[0]?.name ?? sweep.value?.primary_metric;
  if (!curves.value || !sweep.value) {
    const error = curves.error ?? sweep.error;
    return error ? <Refused error={error} /> : <p class="nothing loading">Loading…</p>;
  }
  const count = curves.value.length;
  if (!count) return <Nothing>No trial has reported {metric} yet.</Nothing>;
  return (
    <div class="panel-settings">
      <figure class="chart-card">
        <figcaption>
          <span class="chart-name">{metric} of {counted(count, "trial")} by step</span>
          {best && <span class="muted">the best, {best}, stands out</span>}
        </figcaption>
        <Chart lines={lines} others={others} label={`${metric} of every trial`} height={420} />
      </figure>
      <BestSoFar set={set!} order="by the number of the trial" />
      <TrialTimeline sweep={sweep.value} />
    </div>
  );
}

function TrialTimeline({ sweep }: { sweep: Sweep }) {
  const jobs = useTrialJobs(sweep);
  const spans = sweep.trials.flatMap((trial) => (jobs.has(trial.job) ? [spanOf(jobs.get(trial.job)!)] : []));
  return <Timeline spans={spans} title="When trials ran" note={`, at most ${sweep.max_concurrent_trials} at once`} />;
}
