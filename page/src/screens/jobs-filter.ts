/** Which jobs the address chooses, and how the server is asked for them. */

import type { Query } from "../api";

export const PAGE = 100;
export const GROUPS: Record<string, string[]> = {
  running: ["running", "stopping", "finalizing"],
  waiting: ["queued", "provisioning", "staging"],
  failed: ["failed"],
  completed: ["completed"],
  canceled: ["canceled"],
};

export interface Choice {
  text: string; group: string; experiment: string; person: string; parent: string; isArchived: boolean;
}

export function choiceOf(query: URLSearchParams): Choice {
  const word = (name: string) => query.get(name) ?? "";
  return {
    text: word("text"), group: word("state"), experiment: word("experiment"), person: word("person"),
    parent: word("parent"), isArchived: query.has("archived"),
  };
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
