/** The metric that counts: its best value, who chose it, and the button that chooses another for the experiment. */

import { useState } from "preact/hooks";
import { act, type ApiError } from "../api";
import { number, whole } from "../format";
import { useMayAct } from "../hooks";
import type { Job, Primary } from "../types";

/** Who has said that a metric counts, as a sentence for its title. */
export function groundOf({ source, goal }: Primary): string {
  const better = goal === "maximize" ? "higher is better" : goal === "minimize" ? "lower is better" : "which values are better is not known";
  const by = source === "experiment" ? "chosen for the experiment" : source === "job" ? "named by the job" : "guessed by its name; ★ on a chart chooses one";
  return `${better}; ${by}`;
}

/** `best 0.3584 at step 110`; "" where it is the last value, or isn't known. */
export function bestOf(primary: Primary): string {
  const { best, best_step: step, value } = primary;
  if (best === undefined || best === null || best === value) return "";
  return `best ${number(best)} at step ${whole(step ?? 0)}`;
}

/** Chooses the chart's metric as the one that counts in all jobs of the experiment; pressed again, leaves it to each job. */
export function StarButton({ job, metric }: { job: Job; metric: string }) {
  const mayAct = useMayAct();
  const [error, setError] = useState("");
  const isPrimary = job.primary?.name === metric;
  const isChosen = isPrimary && job.primary?.source !== "guess";
  if (!mayAct) return isPrimary ? <span class="star" title={groundOf(job.primary!)}>{isChosen ? "★" : "☆"}</span> : null;
  const isOfExperiment = isPrimary && job.primary?.source === "experiment";
  const change = () => {
    setError("");
    act(isOfExperiment ? "DELETE" : "PUT", "/experiments/primary", { name: job.experiment, ...(isOfExperiment ? {} : { metric }) })
      .catch((refusal: ApiError) => setError(refusal.what));
  };
  const title = isOfExperiment ? `It counts in all jobs of ${job.experiment}. Leave it to each job` : `Let ${metric} count in all jobs of ${job.experiment}`;
  return (
    <>
      <button type="button" class={`star${isPrimary ? " chosen" : ""}`} aria-pressed={isOfExperiment} aria-label={title} title={isPrimary ? `${groundOf(job.primary!)}. ${title}` : title} onClick={change}>
        {isChosen ? "★" : "☆"}
      </button>
      {error && <span class="not-finite" role="alert">{error}</span>}
    </>
  );
}
