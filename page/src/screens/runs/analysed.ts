/** Which runs of a table the panels show, which of their settings differ, and what is left out, with the reason. */

import { counted } from "../../format";
import { settingOf, wordOf } from "../../parts/parallel-scale";
import { bestJob, valued, type PanelRun, type RunSet } from "../../parts/run-panels/run-set";
import type { Span } from "../../parts/timeline";
import type { RunCell, RunField, RunTableAnswer } from "../../types";
import { numberOf } from "./run-order";

/** Runs that are looked at together, the newest. */
export const MAX_ANALYSED = 2000;
const MAX_ASKED = 40;
/** Settings whose values are asked for, those of most runs. */
const MAX_LENGTH = 3000;
/** Characters of the columns of one request. */
const MAX_AXES = 12;
const MAX_WORDS = 20;
/** Different words with which a setting is drawn; one with more is a name or a folder of each run. */
const LEAST_SHARE = 0.9;
/** Of the runs, that must have a setting: without a value, a run has no line. */
const MAX_SPANS = 100;

const METRIC = "metric.";
export const metricsOf = (fields: RunField[]): RunField[] => fields.filter(({ field }) => field.startsWith(METRIC));

/** The name behind the first dot of a field, without its quotes. */
export const keyOf = (field: string): string => field.slice(field.indexOf(".") + 1).replace(/^"(.*)"$/, (_, key: string) => key.replaceAll('""', '"'));

/** Inputs and parameters that differ, those of most runs first. Scripts often log their inputs as parameters, too. */
export function settingFields(fields: RunField[]): string[] {
  const differing = fields.filter((one) => /^(input|param)\./.test(one.field) && one.values > 1);
  const inputs = new Set(differing.filter(({ field }) => field.startsWith("input.")).map(({ field }) => keyOf(field)));
  const own = differing.filter(({ field }) => field.startsWith("input.") || !inputs.has(keyOf(field)));
  let length = 0;
  return [...own].sort((a, b) => b.runs - a.runs).slice(0, MAX_ASKED).map(({ field }) => field).filter((field) => (length += field.length + 1) <= MAX_LENGTH);
}

/** The field of the best value of a metric; that of its last one where it isn't known which are better. */
export const valueField = (metric: string, goal: string): string =>
  goal === "maximize" ? `max(${metric})` : goal === "minimize" ? `min(${metric})` : metric;

const TIMES = ["submitted", "started", "ended"];

export const columnsOf = (value: string, settings: string[]): string[] => [value, ...TIMES, ...settings];

/** set: all runs with a value. full: those that have all of `axes`. offered: settings that can stand over the metric alone. */
export interface Analysed { set: RunSet; full: RunSet; axes: string[]; offered: string[]; spans: Span[]; notes: string[] }

/** only: the runs that are looked at; undefined = all of the table. */
export function analysed(table: RunTableAnswer, metric: string, goal: string, settings: string[], only?: ReadonlySet<string>): Analysed {
  const chosen = table.runs.filter((run) => !only || only.has(run.job));
  const at = (cells: RunCell[], n: number): number | null => numberOf(cells[n] ?? null) ?? null;
  chosen.sort((a, b) => (at(a.values, 1) ?? 0) - (at(b.values, 1) ?? 0));
  const names = settings.map(keyOf);
  const runs = chosen.map((run, n): PanelRun => {
    const value = at(run.values, 0);
    const own = run.values.slice(1 + TIMES.length);
    const parameters = Object.fromEntries(names.flatMap((name, k) => (own[k] === null || own[k] === undefined ? [] : [[name, settingOf(own[k])]])));
    return { job: run.job, number: n + 1, value: value !== null && Number.isFinite(value) ? value : null, parameters };
  });
  const scored = valued(runs);
  const notes: string[] = [];
  if (scored.length < runs.length) notes.push(`${counted(runs.length - scored.length, "run")} without a value of ${metric} ${runs.length - scored.length === 1 ? "is" : "are"} in no chart but the last`);
  const { axes, offered } = sifted(names, scored, notes);
  const full = scored.filter((run) => axes.every((name) => name in run.parameters));
  if (full.length < scored.length) notes.push(`${counted(scored.length - full.length, "run")} without a value of each setting: not among the parallel coordinates, nor in the importance`);
  const set: RunSet = { noun: "run", metric, goal, best: bestJob(scored, goal), runs: scored };
  const spans = chosen.slice(-MAX_SPANS).map((run): Span => (
    { name: run.job, job: run.job, state: run.state, submitted: at(run.values, 1) ?? 0, start: at(run.values, 2), end: at(run.values, 3) }));
  return { set, full: { ...set, runs: full }, axes, offered, spans, notes };
}

/** The settings that differ among the runs, and why the others are left out. */
function sifted(names: string[], runs: PanelRun[], notes: string[]): { axes: string[]; offered: string[] } {
  const [rare, wordy, kept]: [string[], string[], Map<string, string>] = [[], [], new Map()];
  const offered: string[] = [];
  for (const name of names) {
    const own = runs.map((run) => run.parameters[name]);
    const values = own.filter((one) => one !== undefined);
    const different = new Set(values.map(wordOf));
    if (different.size < 2) continue;
    if (different.size > MAX_WORDS && values.some((one) => typeof one !== "number")) {
      wordy.push(name);
      continue;
    }
    const key = own.map((one) => (one === undefined ? "" : wordOf(one))).join("\n");
    const same = kept.get(key);
    if (same !== undefined) {
      notes.push(`${name} has the values of ${same}`);
      continue;
    }
    kept.set(key, name);
    offered.push(name);
    if (values.length < LEAST_SHARE * runs.length) rare.push(name);
  }
  const common = offered.filter((name) => !rare.includes(name));
  if (wordy.length) notes.push(`${wordy.join(", ")}: more than ${MAX_WORDS} different words`);
  if (rare.length) notes.push(`${rare.join(", ")}: only some of the runs have ${rare.length === 1 ? "it" : "them"}; IS NOT NULL in the filter chooses these`);
  if (common.length > MAX_AXES) notes.push(`of ${common.length} settings that differ, the first ${MAX_AXES} are looked at together`);
  return { axes: common.slice(0, MAX_AXES), offered };
}
