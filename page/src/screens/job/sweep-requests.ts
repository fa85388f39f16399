/** What the tabs of a sweep ask the server for. */

import { segment, type Query } from "../../api";
import { useAnswer, useChange, useEvents, useJobEvents, useThrottled, type Answer } from "../../hooks";
import { ENDED } from "../../parts/job-state";
import { settingOf } from "../../parts/parallel-scale";
import type { RunSet } from "../../parts/run-panels/run-set";
import type { Job, JobPage, Sweep } from "../../types";

const MAX_POINTS = 100;
/** Of one curve. */
const MAX_ALL = 20_000;
/** Of all curves together. */

export const trialCurvesOf = (sweep: string): [string, Query] => ["/curves", { parent: sweep, max_points: MAX_POINTS, max_total: MAX_ALL }];

/** The sweep of a job, read again when it or one of its trials changes. */
export function useSweep(job: Job): Answer<Sweep> {
  const answer = useAnswer<Sweep>(`/sweeps/${segment(job.name)}`);
  const reload = useThrottled(answer.reload, 1500);
  useEvents("jobs", (changes) => changes.jobs.some((one) => one.parent === job.name || one.name === job.name) && reload());
  // The stream begins with the job as it is: of one that has ended that is nothing new.
  useJobEvents(job.name, "state", (now) => (!ENDED.has(now.state) || answer.value?.state !== now.state) && reload());
  return answer;
}

/** The trials of a sweep as panels draw them: a setting typed as `1e-4` is a number. */
export function setOf({ trials, best, goal, primary_metric: metric }: Sweep): RunSet {
  const runs = trials.map(({ job, number, value, parameters }) => (
    { job, number, value, parameters: Object.fromEntries(Object.entries(parameters).map(([name, one]) => [name, settingOf(one)])) }));
  return { noun: "trial", metric, goal, best: trials.find((trial) => trial.number === best)?.job, runs };
}

/** A trial has the state and sentence that its job has; its times are the job's own. */
export function useTrialJobs(sweep: Sweep): Map<string, Job> {
  const answer = useAnswer<JobPage>(sweep.trials.length ? "/jobs" : undefined, { parent: sweep.name, limit: MAX_TIMED, archived: "all" }, true);
  const reload = useThrottled(answer.reload, PAUSE_MS);
  const ended = sweep.trials.filter((trial) => trial.state && ENDED.has(trial.state)).length;
  const running = sweep.trials.filter((trial) => trial.state === "running").length;
  useChange(`${ended} ${running}`, reload);
  return new Map((answer.value?.jobs ?? []).map((job) => [job.name, job]));
}

const MAX_TIMED = 1000;
/** Trials whose times are shown, the newest: the jobs of so many are given at once. */
const PAUSE_MS = 3000;
