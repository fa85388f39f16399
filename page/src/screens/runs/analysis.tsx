/** What runs have come to, and by which of their settings: the panels of a sweep for the runs of a filter, or the selected ones. */

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { counted, number, text, whole } from "../../format";
import { useAnswer, useThrottled } from "../../hooks";
import { Nothing, Refused } from "../../parts/placeholders";
import { BestSoFar } from "../../parts/run-panels/best-so-far";
import { Importance } from "../../parts/run-panels/importance";
import { Parallel } from "../../parts/run-panels/parallel";
import type { RunSet } from "../../parts/run-panels/run-set";
import { SettingScatter } from "../../parts/run-panels/setting-scatter";
import { Timeline } from "../../parts/timeline";
import { jobHref, setQuery, usePlace } from "../../router";
import type { RunField, RunTableAnswer } from "../../types";
import { analysed, columnsOf, keyOf, MAX_ANALYSED, metricsOf, settingFields, valueField, type Analysed } from "./analysed";
import { useRunChanges } from "./run-changes";
import { askedFor } from "./run-query";

const INTERVAL_MS = 4000;
const GOALS: [word: string, goal: string, label: string][] = [["max", "maximize", "higher is better"], ["min", "minimize", "lower is better"], ["none", "", "not known"]];

interface Props { path: string; experiment: string; where: string; isArchived: boolean; fields: RunField[] | undefined; selected: ReadonlySet<string> }

export function Analysis({ path, experiment, where, isArchived, fields, selected }: Props) {
  const { query } = usePlace();
  const metrics = metricsOf(fields ?? []);
  const asked = query.get("metric");
  const chosen = metrics.find(({ field }) => keyOf(field) === asked) ?? metrics.find((one) => one.is_primary) ?? metrics[0];
  const goal = GOALS.find(([word]) => word === query.get("goal"))?.[1] ?? chosen?.goal ?? "";
  const settings = useMemo(() => settingFields(fields ?? []), [fields]);
  const columns = chosen ? columnsOf(valueField(chosen.field, goal), settings) : [];
  const answer = useAnswer<RunTableAnswer>(chosen && path, { ...askedFor({ columns: "", where, sort: "", group: "" }, columns, isArchived), limit: MAX_ANALYSED });
  useRunChanges(experiment, useThrottled(answer.reload, INTERVAL_MS));
  const isPart = selected.size > 1 && !query.has("all");
  const metric = chosen ? keyOf(chosen.field) : "";
  const seen = useMemo(() => answer.value && analysed(answer.value, metric, goal, settings, isPart ? selected : undefined), [answer.value, metric, goal, settings, isPart, selected]);
  if (!fields) return <p class="nothing loading">Loading…</p>;
  if (!chosen) return <Nothing>No run has logged a metric yet.</Nothing>;
  return (
    <>
      <div class="filters">
        <label class="select"><span>Metric</span>
          <select value={metric} onChange={(event) => setQuery({ metric: event.currentTarget.value, goal: "" })}>
            {metrics.map(({ field, is_primary }) => <option key={field} value={keyOf(field)}>{keyOf(field)}{is_primary ? " · the one that counts" : ""}</option>)}
          </select>
        </label>
        <label class="select"><span>Values</span>
          <select value={GOALS.find((one) => one[1] === goal)![0]} onChange={(event) => setQuery({ goal: event.currentTarget.value })}>
            {GOALS.map(([word, , label]) => <option key={word} value={word}>{label}</option>)}
          </select>
        </label>
        {selected.size > 1 && (
          <label class="check"><input type="checkbox" checked={isPart} onChange={(event) => setQuery({ all: event.currentTarget.checked ? "" : "1" })} /> only the {selected.size} selected</label>
        )}
      </div>
      {answer.error && <Refused error={answer.error} />}
      {!seen && !answer.error && <p class="nothing loading">Loading…</p>}
      {seen && <Panels seen={seen} table={answer.value!} isPart={isPart} />}
    </>
  );
}

const PANELS = 6;

/** Panels are drawn one after another, and so is what is new: with thousands of runs, all at once would hold the page up. */
function Panels({ seen, table, isPart }: { seen: Analysed; table: RunTableAnswer; isPart: boolean }) {
  const [head, parallel, scatter, importance, history, timeline] = useTurns(seen, PANELS);
  const kept = [
    useMemo(() => parallel && parallel.axes.length > 0 && parallel.full.runs.length > 1 && <Parallel set={parallel.full} names={parallel.axes} />, [parallel]),
    useMemo(() => scatter && (scatter.offered.length > 0 ? <SettingScatter set={scatter.set} names={scatter.offered} /> : <Nothing>No input or parameter differs between these runs.</Nothing>), [scatter]),
    useMemo(() => importance && importance.axes.length > 0 && <Importance set={importance.full} names={importance.axes} />, [importance]),
    useMemo(() => history && history.set.goal && <BestSoFar set={history.set} order="in the order in which the runs were submitted" />, [history]),
    useMemo(() => timeline && <Timeline spans={timeline.spans} title="When runs ran" note={timeline.spans.length < timeline.set.runs.length ? `, of the newest ${timeline.spans.length}` : ""} />, [timeline]),
  ];
  if (seen.set.runs.length < 2) return <Nothing>It needs two runs with a value of {seen.set.metric}.</Nothing>;
  const cut = table.total > table.runs.length && !isPart ? [`the newest ${whole(table.runs.length)} of ${whole(table.total)} runs: the filter chooses others`] : [];
  const notes = [...cut, ...head!.notes];
  return (
    <div class="panel-settings">
      <Best set={head!.set} names={head!.offered} />
      {notes.length > 0 && <p class="muted" role="note">{notes.map((one) => `${one[0]!.toUpperCase()}${one.slice(1)}.`).join(" ")}</p>}
      {kept}
    </div>
  );
}

/** What each of several panels shows: that which is new, one panel behind the other, and until then what it showed before. */
function useTurns(seen: Analysed, count: number): (Analysed | undefined)[] {
  const kept = useRef<Analysed[]>([]);
  const [turn, setTurn] = useState({ seen, done: 1 });
  const done = turn.seen === seen ? turn.done : 1;
  for (let n = 0; n < done; n += 1) kept.current[n] = seen;
  useEffect(() => {
    if (done >= count) return;
    const timer = setTimeout(() => setTurn({ seen, done: done + 1 }));
    return () => clearTimeout(timer);
  }, [seen, done]);
  return kept.current;
}

function Best({ set, names }: { set: RunSet; names: string[] }) {
  const best = set.runs.find((run) => run.job === set.best);
  if (!best) return null;
  return (
    <div class="tiles">
      <div class="tile">
        <span class="muted">best {set.metric} of {counted(set.runs.length, "run")}</span>
        <strong class="big number">{number(best.value)}</strong>
        <a href={jobHref(best.job)}>{best.job}</a>
      </div>
      {names.length > 0 && (
        <div class="tile">
          <span class="muted">settings of the best run</span>
          <dl class="settings">{names.map((name) => <div key={name}><dt>{name}</dt><dd class="number">{text(best.parameters[name])}</dd></div>)}</dl>
        </div>
      )}
    </div>
  );
}
