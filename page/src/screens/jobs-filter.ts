/** Which jobs the address chooses, and how the server is asked for them; what the word `text` matches is the server's: `server/api/jobs.py`. */

import type { Query } from "../api";
import type { Job } from "../types";

export const PAGE = 100;
/** Each filter by the state that it is named after; a job with nodes counts as running. */
export const GROUPS: Record<string, string[]> = {
  queued: ["queued"],
  running: ["provisioning", "staging", "running", "stopping", "finalizing"],
  hanging: ["running"],
  failed: ["failed"],
  completed: ["completed"],
  canceled: ["canceled"],
};

/** Filters of a reason, beside that of the state. */
const REASONS: Record<string, string> = { hanging: "hanging" };

/** A name that filters had before, in addresses that are kept. */
const FORMER: Record<string, string> = { waiting: "queued" };

export interface Choice {
  text: string; group: string; experiment: string; person: string; parent: string; isArchived: boolean;
}

export function choiceOf(query: URLSearchParams): Choice {
  const word = (name: string) => query.get(name) ?? "";
  return {
    text: word("text"), group: FORMER[word("state")] ?? word("state"), experiment: word("experiment"), person: word("person"),
    parent: word("parent"), isArchived: query.has("archived"),
  };
}

/** Whether a job is one of those that are chosen by their state, and by whether they are archived. */
export const isChosen = (choice: Choice, job: Pick<Job, "state" | "reason" | "archived">): boolean =>
  (GROUPS[choice.group]?.includes(job.state) ?? true) && (REASONS[choice.group] ?? job.reason) === job.reason && job.archived === choice.isArchived;

/** How the jobs that hang are counted, among those that run. */
export function hangingOf(choice: Choice, runs: number): [string, Query] | undefined {
  const asked = countsOf(choice);
  return asked && runs ? [asked[0], { ...asked[1], reason: REASONS.hanging! }] : undefined;
}

/** How the counts beside the filters are asked for; undefined where the server can't count what is listed. */
export function countsOf(choice: Choice): [string, Query] | undefined {
  if (choice.text) return undefined;
  return [choice.parent ? "/job-counts" : "/job-counts?parent=", {
    experiment: choice.experiment,
    person: choice.person,
    archived: choice.isArchived ? "true" : "false",
    ...(choice.parent ? { parent: choice.parent } : {}),
  }];
}

/** The jobs of each filter but that of a reason, by how many are in each state; "" = all of them. */
export function sumsOf(states: Record<string, number>): Record<string, number> {
  const sum = (group: string[]) => group.reduce((total, state) => total + (states[state] ?? 0), 0);
  const groups = Object.entries(GROUPS).filter(([group]) => !REASONS[group]);
  return { "": sum(groups.flatMap(([, own]) => own)), ...Object.fromEntries(groups.map(([group, own]) => [group, sum(own)])) };
}

export function listOf(query: URLSearchParams): [string, Query] {
  const choice = choiceOf(query);
  // Jobs that are part of none unless they are asked for: `parent` is sent empty, which an absent word is not.
  const path = choice.parent || choice.text ? "/jobs" : "/jobs?parent=";
  return [path, {
    limit: PAGE,
    state: GROUPS[choice.group] ?? [],
    ...(REASONS[choice.group] ? { reason: REASONS[choice.group]! } : {}),
    experiment: choice.experiment,
    person: choice.person,
    archived: choice.isArchived ? "true" : "false",
    text: choice.text,
    ...(choice.parent ? { parent: choice.parent } : {}),
  }];
}
