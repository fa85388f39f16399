/** How the curves of compared jobs are asked for. */

import type { Query } from "../api";

/** Jobs that the server compares at once. */
export const MAX_COMPARED = 200;

const MAX_POINTS = 8000;
/** Of all curves of a chart. */

/** The curves of a metric of all jobs; of the primary metric of each where none is named. */
export const curvesOf = (jobs: string[], metric = ""): [string, Query] =>
  ["/curves", { job: jobs, metric, max_points: Math.round(MAX_POINTS / Math.max(jobs.length, 10)) }];
