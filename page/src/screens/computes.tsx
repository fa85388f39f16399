/** Computes: their machines, who holds them, why one is unusable, and what waits for which reason. */

import { counted, size, whole } from "../format";
import { useAnswer, useEvents, useInterval, useThrottled } from "../hooks";
import { Answered, Nothing } from "../parts/placeholders";
import { Linked } from "../parts/job-links";
import { StateIcon, StateWord } from "../parts/job-state";
import { Ago } from "../parts/time";
import { jobHref, usePlace } from "../router";
import type { Compute, Held, Job, JobPage, Machine } from "../types";
import { ComputeUse } from "./compute-use";
import { progressOf, sizeOf } from "./job/progress";

const INTERVAL_MS = 5000;
const MAX_WAITING = 200;

export function ComputesScreen() {
  const { query } = usePlace();
  const answer = useAnswer<Compute[]>("/computes");
  const waiting = useAnswer<JobPage>("/jobs", { state: ["queued", "provisioning"], limit: MAX_WAITING });
  const reload = useThrottled(() => {
    answer.reload();
    waiting.reload();
  }, 1000);
  useEvents("jobs", reload);
  useInterval(reload, INTERVAL_MS);
  const name = query.get("name");
  return (
    <div class="screen">
      <h1>Computes</h1>
      <Answered answer={answer}>
        {(computes) => (
          <>
            {computes.length === 0 && <Nothing>No compute. <code>drumbeat compute create</code> makes one known.</Nothing>}
            {computes.length > 0 && <Free computes={computes} />}
            {[...computes].sort((a, b) => Number(b.name === name) - Number(a.name === name)).map((one) => (
              <ComputeCard key={one.name} compute={one} isMarked={one.name === name}
                waiting={(waiting.value?.jobs ?? []).filter((job) => job.compute === one.name && job.type === "command").reverse()} />
            ))}
            <ComputeUse names={computes.map((one) => one.name)} />
            {waiting.value?.after && <p class="muted">Of all waiting jobs, the {MAX_WAITING} submitted last are shown.</p>}
          </>
        )}
      </Answered>
    </div>
  );
}

/** What is free of all computes, in one line. */
export function free(computes: Compute[]): string {
  const usable = computes.filter((one) => !one.trouble).flatMap((one) => one.machines.filter((machine) => !machine.unusable).map((machine) => ({ machine, held: one.held.filter((each) => each.machine === machine.name) })));
  const cpus = sum(usable.map((one) => one.machine.cpus));
  const gpus = sum(usable.map((one) => one.machine.gpus.length));
  const freeCpus = cpus - sum(usable.flatMap((one) => one.held.map((each) => each.cpus)));
  const freeGpus = gpus - sum(usable.flatMap((one) => one.held.map((each) => each.gpus.length)));
  return `Free now: ${gpus ? `${whole(freeGpus)} of ${counted(gpus, "GPU")}, ` : ""}${whole(freeCpus)} of ${counted(cpus, "CPU slot")}`;
}

function Free({ computes }: { computes: Compute[] }) {
  const waiting = sum(computes.map((one) => one.waiting));
  return <p class="ledger-summary">{free(computes)}{waiting > 0 && `; ${counted(waiting, "job")} waiting`}</p>;
}

function ComputeCard({ compute, waiting, isMarked }: { compute: Compute; waiting: Job[]; isMarked: boolean }) {
  const cpus = sum(compute.machines.map((one) => one.cpus));
  const gpus = sum(compute.machines.map((one) => one.gpus.length));
  const busyCpus = sum(compute.held.map((one) => one.cpus));
  const busyGpus = sum(compute.held.map((one) => one.gpus.length));
  return (
    <section class={`compute${isMarked ? " marked-card" : ""}`} aria-label={`Compute ${compute.name}`}>
      <header class="section-head">
        <h2>{compute.name}</h2>
        <span class="tag">{compute.engine}</span>
        <span class="muted">
          {counted(compute.machines.length, "machine")} · {busyCpus} of {counted(cpus, "CPU slot")} held
          {gpus > 0 && ` · ${busyGpus} of ${counted(gpus, "GPU")} held`}
        </span>
      </header>
      {compute.trouble && <p class="note tone-bad">{compute.trouble}</p>}
      <ul class="machines">
        {compute.machines.map((one) => <MachineTile key={one.name} machine={one} held={compute.held.filter((each) => each.machine === one.name)} />)}
      </ul>
      {waiting.length > 0 && <Queue waiting={waiting} />}
      {compute.waiting > 0 && waiting.length === 0 && <p class="muted">{counted(compute.waiting, "job")} waiting</p>}
      {compute.machines.length === 0 && <Nothing>It has reported no machine yet.</Nothing>}
    </section>
  );
}

const sum = (numbers: number[]): number => numbers.reduce((total, one) => total + one, 0);

function MachineTile({ machine, held }: { machine: Machine; held: Held[] }) {
  return (
    <li class="card machine-tile">
      <header>
        <h3>{machine.name}</h3>
        <StateWord state={machine.state} />
      </header>
      <p class="muted">
        {[counted(machine.cpus, "CPU slot"), machine.gpus.length ? counted(machine.gpus.length, "GPU") : "", machine.memory_mib ? `${size(machine.memory_mib * 1024 * 1024)} of memory` : "", machine.word && machine.word !== machine.state ? machine.word : ""].filter(Boolean).join(" · ")}
      </p>
      {machine.unusable && <p class="tone-bad">{machine.unusable}</p>}
      {held.length > 0 && (
        <ul class="holders">
          {held.map((one) => (
            <li key={`${one.job} ${one.attempt} ${one.node}`}>
              <StateIcon state={one.is_hanging ? "hanging" : "running"} /> <a href={jobHref(one.job, { tab: "ranks" })}>{one.job}</a>{" "}
              <span class="muted">{one.is_hanging ? "hangs; " : ""}node {one.node}, {counted(one.cpus, "CPU slot")}{one.gpus.length ? `, GPU ${one.gpus.join(", ")}` : ""}{one.person && `, ${one.person}'s`}{one.since && <>, since <Ago at={one.since} /></>}</span>
            </li>
          ))}
        </ul>
      )}
    </li>
  );
}

function Queue({ waiting }: { waiting: Job[] }) {
  return (
    <table class="plain">
      <thead><tr><th scope="col">Waiting</th><th scope="col">Why</th><th scope="col" class="wide-only">Size</th><th scope="col" class="right">Since</th></tr></thead>
      <tbody>
        {waiting.map((job) => (
          <tr key={job.name}>
            <td><a class="row-link" href={jobHref(job.name)}>{job.name}</a></td>
            <td class="muted"><Linked sentence={progressOf(job)} /></td>
            <td class="wide-only">{sizeOf(job)}</td>
            <td class="right"><Ago at={job.submitted_at} /></td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
