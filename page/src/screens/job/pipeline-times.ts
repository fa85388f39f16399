/** How long the steps of a pipeline took, what flows between them, and the run before. */

import { useAnswer, useChange, useThrottled } from "../../hooks";
import { between } from "../../format";
import type { Job, JobPage, Pipeline } from "../../types";

const MAX_STEPS = 1000;
const MAX_EARLIER = 100;
const PAUSE_MS = 2000;

/** The jobs of a pipeline's steps, by their names; read again when a step begins or ends. */
export function useStepJobs(pipeline: Pipeline): Map<string, Job> {
  const answer = useAnswer<JobPage>("/jobs", stepsOf(pipeline.name), true);
  const reload = useThrottled(answer.reload, PAUSE_MS);
  useChange(pipeline.steps.map((step) => step.state).join(), reload);
  return new Map((answer.value?.jobs ?? []).map((job) => [job.name, job]));
}

const stepsOf = (pipeline: string) => ({ parent: pipeline, limit: MAX_STEPS, archived: "all" });

/** took: the seconds of its steps, by the end of the name of the step's job. */
export interface EarlierRun { job: Job; took: Map<string, number> }

/** The last pipeline of the same experiment before this one that has a step of the same name. */
export function useRunBefore(job: Job): EarlierRun | undefined {
  const list = useAnswer<JobPage>("/jobs?parent=", { experiment: job.experiment, limit: MAX_EARLIER, archived: "all" }, true);
  const before = runBefore(list.value?.jobs ?? [], job);
  const steps = useAnswer<JobPage>(before && "/jobs", before ? stepsOf(before.name) : {}, true);
  if (!before || !steps.value) return undefined;
  return { job: before, took: new Map(steps.value.jobs.flatMap((one) => (one.started_at && one.ended_at ? [[endOf(one.name, before.name), between(one.started_at, one.ended_at)]] : []))) };
}

/** jobs: the newest first. */
export const runBefore = (jobs: Job[], job: Job): Job | undefined =>
  jobs.find((one) => one.type === "pipeline" && one.name !== job.name && one.submitted_at < job.submitted_at);

/** What of the name of a step's job is the step's own. */
export const endOf = (step: string, pipeline: string): string => step.slice(pipeline.length);

const OUTPUT = /parent\.jobs\.([\w-]+)\.outputs\.([\w-]+)/g;

/** The names of the outputs that flow from one step to another, by `source target`. document: the job file. */
export function flowsOf(document: unknown, prefix = ""): Map<string, string[]> {
  const flows = new Map<string, string[]>();
  const jobs = (document as { jobs?: Record<string, unknown> } | undefined)?.jobs ?? {};
  for (const [name, step] of Object.entries(jobs)) {
    const target = `${prefix}${name}`;
    const inputs = JSON.stringify((step as { inputs?: unknown } | null)?.inputs ?? {});
    for (const [, source, output] of inputs.matchAll(OUTPUT)) {
      const key = `${prefix}${source} ${target}`;
      if (!flows.get(key)?.includes(output!)) flows.set(key, [...(flows.get(key) ?? []), output!]);
    }
    for (const [key, names] of flowsOf(step, `${target}/`)) flows.set(key, names);
  }
  return flows;
}
