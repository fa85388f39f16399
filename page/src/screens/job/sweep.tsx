/** A sweep: the best trial so far, all trials, their curves, and which settings led where. */

import { useMemo, useState } from "preact/hooks";
import { number, text } from "../../format";
import { useGradual } from "../../hooks";
import { Answered, Nothing } from "../../parts/placeholders";
import { settingOf } from "../../parts/parallel-scale";
import { ENDED, StateWord } from "../../parts/job-state";
import { Importance } from "../../parts/run-panels/importance";
import { Parallel } from "../../parts/run-panels/parallel";
import { settingNames, valued } from "../../parts/run-panels/run-set";
import { SettingScatter } from "../../parts/run-panels/setting-scatter";
import { href, jobHref, setQuery, usePlace } from "../../router";
import type { Job, StoryLine, Sweep, Trial } from "../../types";
import { Took } from "../../parts/time";
import { isPlain } from "./progress";
import { RunAgain } from "./run-again-button";
import { setOf, useSweep, useTrialJobs } from "./sweep-requests";

interface TabProps { job: Job; story: StoryLine[] }

export function TrialsTab({ job }: TabProps) {
  const answer = useSweep(job);
  return (
    <Answered answer={answer}>
      {(sweep) => (
        <>
          <Best sweep={sweep} />
          {sweep.trials.length ? <TrialTable sweep={sweep} /> : <Nothing>No trial has been proposed yet.</Nothing>}
        </>
      )}
    </Answered>
  );
}

function Best({ sweep }: { sweep: Sweep }) {
  const best = sweep.trials.find((trial) => trial.number === sweep.best);
  const ended = sweep.trials.filter((trial) => trial.state && ENDED.has(trial.state)).length;
  const running = sweep.trials.filter((trial) => trial.state === "running").length;
  return (
    <div class="tiles">
      <div class="tile">
        <span class="muted">best {sweep.primary_metric} ({betterOf(sweep)})</span>
        {best ? (
          <>
            <strong class="big number">{number(best.value)}</strong>
            <a href={jobHref(best.job)}>{best.job}</a>
          </>
        ) : <strong class="big">–</strong>}
      </div>
      <div class="tile">
        <span class="muted">trials</span>
        <strong class="big number">{ended} <span class="muted">of {sweep.max_total_trials}</span></strong>
        <span class="muted">{running} running, at most {sweep.max_concurrent_trials} at once</span>
        <progress max={sweep.max_total_trials} value={ended} aria-label="Trials that have ended" />
      </div>
      {best && (
        <div class="tile">
          <span class="muted">settings of the best trial</span>
          <dl class="settings">
            {Object.entries(best.parameters).map(([key, value]) => <div key={key}><dt>{key}</dt><dd class="number">{text(value)}</dd></div>)}
          </dl>
          {best.state && ENDED.has(best.state) && <RunAgain job={{ name: best.job, type: "command", ended_at: null }} label="Run it again…" />}
        </div>
      )}
    </div>
  );
}

const betterOf = (sweep: Sweep): string => `${sweep.goal === "minimize" ? "lower" : "higher"} is better`;

const BEST_COMPARED = 5;

/** The trials with a value, the best first. */
export const rankedOf = (sweep: Sweep): Trial[] => sorted(sweep, "value").filter((trial) => trial.value !== null);

type Order = "number" | "value" | `p:${string}`;

function TrialTable({ sweep }: { sweep: Sweep }) {
  const { query } = usePlace();
  const order = (query.get("sort") ?? "value") as Order;
  const names = settingNames(sweep.trials);
  const trials = useMemo(() => sorted(sweep, order), [sweep, order]);
  const [limit, setLimit] = useState(100);
  const drawn = useGradual(limit);
  const jobs = useTrialJobs(sweep);
  const hasWhy = trials.some((trial) => trial.sentence && !isPlain(trial.state, trial.sentence));
  const ranked = rankedOf(sweep).slice(0, BEST_COMPARED);
  const head = (id: Order, label: string, isRight = false) => (
    <th scope="col" class={isRight ? "right" : ""} aria-sort={order !== id ? undefined : id === "value" && sweep.goal !== "minimize" ? "descending" : "ascending"}>
      <button type="button" class={`as-link${order === id ? " sorted" : ""}`} title={`Sort by ${label}${id === "value" ? ", best first" : ""}`}
        onClick={() => setQuery({ sort: id === "value" ? "" : id })}>{label}</button>
      {id === "value" && <span class="better">{betterOf(sweep)}</span>}
    </th>
  );
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Trials">
      {ranked.length > 1 && (
        <p class="buttons trials-buttons">
          <a class="button" href={href("/compare", { job: ranked.map((trial) => trial.job) })}>Compare the best {ranked.length}</a>
        </p>
      )}
      <table class="plain trials">
        <thead>
          <tr>{head("number", "Trial")}<th scope="col">State</th>{head("value", sweep.primary_metric, true)}{names.map((name) => head(`p:${name}`, name, true))}<th scope="col" class="right">Took</th>{hasWhy && <th scope="col">Why</th>}</tr>
        </thead>
        <tbody>
          {trials.slice(0, drawn).map((trial) => (
            <tr key={trial.number} class={trial.number === sweep.best ? "selected" : ""}>
              <td><a href={jobHref(trial.job)}>{trial.job}</a>{trial.number === sweep.best && <span class="tag best-tag">best</span>}</td>
              <td><StateWord state={trial.state ?? "waiting"} /></td>
              <td class="right number">{number(trial.value)}</td>
              {names.map((name) => <td key={name} class="right number">{text(trial.parameters[name])}</td>)}
              <td class="right"><Took from={jobs.get(trial.job)?.started_at ?? null} to={jobs.get(trial.job)?.ended_at ?? null} /></td>
              {hasWhy && <td class="muted why"><span class="clamp">{isPlain(trial.state, trial.sentence) ? "" : trial.sentence}</span></td>}
            </tr>
          ))}
        </tbody>
      </table>
      {trials.length > limit && <div class="buttons"><button type="button" onClick={() => setLimit(limit + 300)}>Show more trials</button></div>}
    </div>
  );
}

function sorted(sweep: Sweep, order: Order): Trial[] {
  const sign = sweep.goal === "minimize" ? 1 : -1;
  const trials = [...sweep.trials];
  if (order === "number") return trials.sort((a, b) => a.number - b.number);
  if (order === "value") return trials.sort((a, b) => (a.value === null ? 1 : b.value === null ? -1 : sign * (a.value - b.value)) || a.number - b.number);
  const name = order.slice(2);
  return trials.sort((a, b) => compare(a.parameters[name], b.parameters[name]) || a.number - b.number);
}

const compare = (one: unknown, other: unknown): number => compareSettings(settingOf(one), settingOf(other));

const compareSettings = (one: unknown, other: unknown): number =>
  typeof one === "number" && typeof other === "number" ? one - other : String(one).localeCompare(String(other));

export function SettingsTab({ job }: TabProps) {
  const answer = useSweep(job);
  return (
    <Answered answer={answer}>
      {(sweep) => {
        const set = setOf(sweep);
        const scored = valued(set.runs);
        if (scored.length < 2) return <Nothing>It needs two trials with a value of {sweep.primary_metric}.</Nothing>;
        const names = settingNames(scored);
        return (
          <>
            <Parallel set={set} names={names} />
            <SettingScatter set={set} names={names} />
            <Importance set={set} names={names} />
          </>
        );
      }}
    </Answered>
  );
}
