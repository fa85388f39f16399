/** The jobs that hold the slots of a compute, each in one line. */

import { counted } from "../../format";
import { useAnswer, useEvents, useThrottled } from "../../hooks";
import { StateWord } from "../../parts/job-state";
import { jobHref } from "../../router";
import type { Compute, Held } from "../../types";

const PAUSE_MS = 2000;

export interface Holder { job: string; nodes: number; cpus: number; gpus: number; machines: string[]; isHanging: boolean }

/** What each job holds in all, those with the most slots first. */
export function holdersOf(held: Held[]): Holder[] {
  const byJob = new Map<string, Holder>();
  for (const one of held) {
    const sum = byJob.get(one.job) ?? { job: one.job, nodes: 0, cpus: 0, gpus: 0, machines: [], isHanging: false };
    byJob.set(one.job, {
      job: one.job, nodes: sum.nodes + 1, cpus: sum.cpus + one.cpus, gpus: sum.gpus + one.gpus.length,
      isHanging: sum.isHanging || one.is_hanging === true,
      machines: sum.machines.includes(one.machine) ? sum.machines : [...sum.machines, one.machine],
    });
  }
  return [...byJob.values()].sort((a, b) => b.cpus - a.cpus || a.job.localeCompare(b.job));
}

export function Holders({ compute }: { compute: string }) {
  const answer = useAnswer<Compute[]>("/computes", {}, true);
  const reload = useThrottled(answer.reload, PAUSE_MS);
  useEvents("jobs", reload);
  useEvents("again", reload);
  const own = answer.value?.find((one) => one.name === compute);
  const holders = holdersOf(own?.held ?? []);
  if (!holders.length) return null;
  const hasGpus = own!.machines.some((one) => one.gpus.length > 0);
  return (
    <table class="plain holders-table">
      <caption>Who holds the slots of {compute}</caption>
      <thead>
        <tr>
          <th scope="col">Job</th><th scope="col" class="right">Nodes</th><th scope="col" class="right">CPU slots</th>
          {hasGpus && <th scope="col" class="right">GPUs</th>}<th scope="col">On</th>
        </tr>
      </thead>
      <tbody>
        {holders.map((one) => (
          <tr key={one.job}>
            <td><a href={jobHref(one.job)}>{one.job}</a>{one.isHanging && <> <StateWord state="hanging" /></>}</td>
            <td class="right number">{one.nodes}</td>
            <td class="right number">{one.cpus}</td>
            {hasGpus && <td class="right number">{one.gpus}</td>}
            <td class="muted">{one.machines.length > 3 ? counted(one.machines.length, "machine") : one.machines.join(", ")}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
