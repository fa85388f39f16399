/** Which jobs the address chooses, and how the server is asked for them; what the word `text` matches is the server's: `server/api/jobs.py`. */

import type { Query } from "../api";
import type { Job } from "../types";

export const PAGE = 100;
/** Each filter by the state that it is named after; a job with nodes counts as running. */
export const GROUPS: Record<string, string[]> = {
  queued: ["queued"],
  running: ["provisioning", "staging", "running", "stopping", "finalizing"],
  failed: ["failed"],
  completed: ["completed"],
  canceled: ["canceled"],
};

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
export const isChosen = (choice: Choice, job: Pick<Job, "state" | "archived">): boolean =>
  (GROUPS[choice.group]?.includes(job.state) ?? true) && job.archived === choice.isArchived;

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

/** The jobs of each filter, by how many are in each state; "" = all of them. */
export function sumsOf(states: Record<string, number>): Record<string, number> {
  const sum = (group: string[]) => group.reduce((total, state) => total + (states[state] ?? 0), 0);
  return { "": sum(Object.values(GROUPS).flat()), ...Object.fromEntries(Object.entries(GROUPS).map(([group, own]) => [group, sum(own)])) };
}

export function listOf(query: URLSearchParams): [string, Query] {
  const choice = choiceOf(query);
  // Jobs that are part of none unless they are asked for: `parent` is sent empty, which an absent word is not.
  const path = choice.parent || choice.text ? "/jobs" : "/jobs?parent=";
  return [path, {
    limit: PAGE,
    state: GROUPS[choice.group] ?? [],
    experiment: choice.experiment,
    person: choice.person,
    archived: choice.isArchived ? "true" : "false",
    text: choice.text,
    ...(choice.parent ? { parent: choice.parent } : {}),
  }];
}
