/** The report of a rehearsal: where it lies, and what it says of one job. */

import { counted, whole } from "../../format";
import type { FileEntry, Job, Rehearsal, RehearsalRun } from "../../types";

/** The tag that all jobs of a rehearsal have; its value begins their names. */
export const TAG = "rehearsal";
const REPORT = /^outputs\/mlflow-artifacts\/[^/]+\/rehearsal\/report\.json$/;

/** The job that keeps the report. */
export const keeperOf = (job: Pick<Job, "tags">): string => `${job.tags[TAG]}-unbroken-1`;

export const reportFile = (files: FileEntry[]): string | undefined => files.find((one) => REPORT.test(one.path))?.path;

/** The report that a file has; undefined where it isn't one. */
export function readReport(text: string): Rehearsal | undefined {
  try {
    const read = JSON.parse(text) as Partial<Rehearsal> | null;
    const lists = [read?.unbroken, read?.runs, read?.judged, read?.unjudged, read?.observations, read?.hints];
    const isReport = typeof read?.verdict === "string" && lists.every(Array.isArray) && read.runs!.every(hasCost);
    return isReport ? (read as Rehearsal) : undefined;
  } catch {
    return undefined;
  }
}

const hasCost = (run: RehearsalRun): boolean =>
  [run.cost.step, run.cost.resumed, run.cost.lost_steps, run.cost.next_step_s, run.cost.extra_s]
    .every((one) => one === null || typeof one === "number");

/** What the fault has cost, in words. */
export function costOf({ cost, restarts }: RehearsalRun): string {
  const parts = [
    cost.step === null ? "" : `hit at step ${whole(cost.step)}`,
    cost.resumed === null ? "" : `went on at step ${whole(cost.resumed)}`,
    cost.lost_steps ? `${counted(cost.lost_steps, "step")} done again` : "",
    cost.next_step_s === null ? "" : `next step after ${cost.next_step_s.toFixed(1)} s`,
    cost.extra_s === null ? "" : `${Math.abs(cost.extra_s).toFixed(1)} s ${cost.extra_s < 0 ? "shorter" : "longer"} than unbroken`,
    counted(restarts, "restart"),
  ];
  return parts.filter(Boolean).join(", ");
}

/** The rehearsal in a sentence, from the view of one of its jobs. */
export function roleOf(report: Rehearsal, job: string): string {
  const run = report.runs.find((one) => one.job === job);
  if (run && !run.target) return `Rehearsed: the job had ended before the fault (${run.fault}).`;
  if (run) return `Rehearsed with ${run.fault} of ${run.target}: ${costOf(run)}. ${equalOf(run)}`;
  const number = report.unbroken.findIndex((one) => one.job === job) + 1;
  return number ? `Unbroken job ${number} of ${report.unbroken.length} of a rehearsal.` : "A job of a rehearsal; another one took its place.";
}

const equalOf = (run: RehearsalRun): string =>
  run.is_equal === null ? "Nothing of it can be judged." : run.is_equal ? "It equals the unbroken job." : "It differs from the unbroken job.";
