/** A list of jobs as it is now: the pages of it that were read, and what events have said since. */

import { useEffect } from "preact/hooks";
import { get, type Query } from "../api";
import { useReading, type Answer, type Reading } from "../hooks";
import type { Job, JobChanges, JobPage } from "../types";
import { PAGE } from "./jobs-filter";

const MAX_LIMIT = 1000;
/** Jobs that the server gives at once. */

/** The list that was shown last. Who goes back to it finds it at once: the browser can restore the place in it. */
let last: (Reading<JobPage> & { pages: number }) | undefined;

/** How many pages of a list were shown when it was left; 0 = it is not the last one. */
export const pagesBefore = (path: string, query: Query): number => (last?.key === keyOf(path, query) ? last.pages : 0);

const keyOf = (path: string, query: Query): string => JSON.stringify([path, query]);

/** The first pages of a list together; all of them are read again by a reload. */
export function useJobPages(path: string, query: Query, pages: number): Answer<JobPage> {
  const key = keyOf(path, query);
  const answer = useReading(key, (signal) => readPages(path, query, pages, signal), false, last?.key === key ? last : undefined);
  useEffect(() => {
    if (answer.value) last = { key, pages, asked: answer.asked, value: answer.value };
  }, [key, answer.value, pages]);
  return answer;
}

async function readPages(path: string, query: Query, pages: number, signal: AbortSignal): Promise<JobPage> {
  const jobs: Job[] = [];
  let after: string | null | undefined;
  for (let wanted = pages * PAGE; wanted > 0 && after !== null; wanted = pages * PAGE - jobs.length) {
    const page: JobPage = await get(path, { ...query, limit: Math.min(wanted, MAX_LIMIT), after }, signal);
    jobs.push(...page.jobs);
    after = page.after;
  }
  return { jobs, after: after ?? null };
}

/** The job after a change, or that it was deleted, and the moment at which the event came. */
interface Change { job: Job | null; at: number }
export type Changes = ReadonlyMap<string, Change>;

export function withEvent(changes: Changes, event: JobChanges, at: number): Changes {
  const all = new Map(changes);
  for (const job of event.jobs) all.set(job.name, { job, at });
  for (const name of event.removed) all.set(name, { job: null, at });
  return all;
}

/** The changes that a list doesn't have yet. asked: the moment at which it was asked for. */
export function changesSince(changes: Changes, asked: number): Changes {
  const newer = [...changes].filter(([, change]) => change.at > asked);
  return newer.length === changes.size ? changes : new Map(newer);
}

export function listedNow(jobs: Job[], changes: Changes, asked: number): Job[] {
  return jobs.flatMap((job) => {
    const change = changes.get(job.name);
    if (!change || change.at <= asked) return [job];
    return change.job ? [change.job] : [];
  });
}
