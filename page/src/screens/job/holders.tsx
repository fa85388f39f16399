/** When a waiting job may start: its place in the queue, who holds the slots and until when; and when a running one ends. */

import { about, counted, exact, whole } from "../../format";
import { segment } from "../../api";
import { useAnswer, useEvents, useInterval, useNow, useThrottled, type Answer } from "../../hooks";
import { StateWord } from "../../parts/job-state";
import { Ago } from "../../parts/time";
import { jobHref } from "../../router";
import type { Holder, Job, Outlook } from "../../types";

const PAUSE_MS = 2000;
const END_PAUSE_MS = 15_000;
/** A running job changes each second. */
const INTERVAL_MS = 30_000;
/** Estimates change though nothing happens. */

function useOutlook(job: Job, pause: number): Answer<Outlook> {
  const answer = useAnswer<Outlook>(`/jobs/${segment(job.name)}/outlook`, {}, true);
  const reload = useThrottled(answer.reload, pause);
  useEvents("jobs", reload);
  useEvents("again", reload);
  useInterval(answer.reload, INTERVAL_MS);
  return answer;
}

/** How far a job is: its last step, of how many where its script has said it. */
export function shareOfSteps({ step, steps }: Pick<Holder, "step" | "steps">): string {
  if (step === null) return "";
  return steps ? `${whole(step)} of ${whole(steps)} (${Math.min(100, Math.floor((100 * step) / steps))} %)` : whole(step);
}

/** When it ends and by what that is known. now: in milliseconds. */
export const endOfHolder = (one: Pick<Holder, "ends_at" | "ground" | "is_limit">, now: number): string =>
  one.ends_at ? `in ${one.is_limit ? "at most" : "about"} ${about(Math.max(0, (Date.parse(one.ends_at) - now) / 1000))}, ${one.ground}` : `unknown: ${one.ground}`;

export function Wait({ job }: { job: Job }) {
  const outlook = useOutlook(job, PAUSE_MS).value;
  const start = outlook?.start;
  if (!start) return null;
  return (
    <>
      <p class="cause-advice">
        <strong>Number {start.place} of {start.waiting}</strong> in the queue of {start.compute}; {start.at ? start.sentence : `its start is ${start.sentence}`}
        {outlook.fewer && <>; <strong>{outlook.fewer}</strong></>}
      </p>
      {outlook.holders.length > 0 && <Holders compute={start.compute} holders={outlook.holders} />}
    </>
  );
}

/** What a job holds: `2 nodes, 8 CPU slots, 4 GPUs`. */
const holdingOf = ({ nodes, cpus, gpus }: Holder): string =>
  [counted(nodes, "node"), counted(cpus, "CPU slot"), gpus ? counted(gpus, "GPU") : ""].filter(Boolean).join(", ");

function Holders({ compute, holders }: { compute: string; holders: Holder[] }) {
  const now = useNow();
  const hasSteps = holders.some((one) => one.step !== null);
  return (
    <table class="plain holders-table">
      <caption>Who holds the slots of {compute}</caption>
      <thead>
        <tr>
          <th scope="col">Job</th><th scope="col" class="wide-only">Holds</th><th scope="col" class="wide-only">Started</th>
          {hasSteps && <th scope="col" class="right">Step</th>}<th scope="col" class="wide-only">Time limit</th><th scope="col">Ends</th>
        </tr>
      </thead>
      <tbody>
        {holders.map((one) => (
          <tr key={one.job}>
            <td>
              <a href={jobHref(one.job)}>{one.job}</a>{one.is_hanging && <> <StateWord state="hanging" /></>}
              {one.person && <span class="under">{one.person}</span>}
            </td>
            <td class="wide-only number">{holdingOf(one)}</td>
            <td class="wide-only">{one.since ? <Ago at={one.since} /> : <span class="muted">not yet</span>}</td>
            {hasSteps && <td class="right number">{shareOfSteps(one)}</td>}
            <td class="wide-only">{one.deadline ? <time dateTime={one.deadline} title={exact(one.deadline)}>in {about((Date.parse(one.deadline) - now) / 1000)}</time> : <span class="muted">none</span>}</td>
            <td>{endOfHolder(one, now)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** How far a running job is, and how long it will still take, where that has a ground. */
export function End({ job }: { job: Job }) {
  const own = useOutlook(job, END_PAUSE_MS).value?.own;
  const now = useNow();
  if (!own || (own.step === null && !own.ends_at)) return null;
  const parts = [own.step === null || !own.steps ? "" : `step ${shareOfSteps(own)}`, own.ends_at ? `ends ${endOfHolder(own, now)}` : ""].filter(Boolean);
  return parts.length ? <p class="muted">{parts.join("; ")}</p> : null;
}
