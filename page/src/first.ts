/** What a screen will ask for first is asked for before it is drawn: this module runs before the others. */

import { prefetch, segment } from "./api";
import { jobIn, place } from "./router";
import { curvesOf } from "./screens/compare-curves";
import { endOf } from "./screens/job/log-source";
import { listOf } from "./screens/jobs-list";
import { trialCurvesOf } from "./screens/job/sweep-lines";

function ask(): void {
  const { path, query } = place();
  const job = jobIn(path);
  if (path === "/") prefetch(...listOf(query));
  const compared = path === "/compare" ? query.getAll("job") : [];
  if (compared.length > 1) {
    prefetch(...curvesOf(compared));
    prefetch("/compare", { job: compared });
  }
  if (job) askForJob(job, query.get("tab") ?? "logs");
}

/** Of a job whose kind isn't known yet: the tab in the address says what it probably is. */
function askForJob(job: string, tab: string): void {
  prefetch(`/jobs/${segment(job)}`);
  if (tab === "logs") prefetch(...endOf(job));
  if (tab === "metrics" || tab === "resources") prefetch(`/jobs/${segment(job)}/metrics`);
  if (tab === "trials" || tab === "curves" || tab === "settings") prefetch(`/sweeps/${segment(job)}`);
  if (tab === "curves") prefetch(...trialCurvesOf(job));
}

ask();
