/** Changes of the runs that a screen shows. */

import { useEvents } from "../../hooks";

/** Calls `action` when runs of an experiment have changed, or any where none is named; and when the server is back. */
export function useRunChanges(experiment: string, action: () => void): void {
  useEvents("jobs", ({ jobs, removed, is_partial }) => {
    if (is_partial || removed.length || !experiment || jobs.some((job) => job.experiment === experiment)) action();
  });
  useEvents("again", action);
}
