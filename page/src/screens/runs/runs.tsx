/** The runs of an experiment as a table: any field as a column, filtered, sorted, grouped, selected; all of it in the address. */

import { useCallback, useMemo, useRef, useState } from "preact/hooks";
import { act, get, type Query } from "../../api";
import { counted, whole } from "../../format";
import { useAnswer, useMayAct, useReading, useThrottled } from "../../hooks";
import { useKey } from "../../keys";
import { late } from "../../parts/late";
import { Note } from "../../parts/note";
import { Nothing, Refused } from "../../parts/placeholders";
import { Tabs } from "../../parts/tabs";
import { experimentIn, go, href, setQuery, usePlace } from "../../router";
import type { Experiment, RunField, RunRow, RunTableAnswer, RunView } from "../../types";
import { MAX_COMPARED } from "../compare-requests";
import { SelectionBar } from "../job/actions";
import { ColumnPicker } from "./column-picker";
import { FilterLine } from "./filter-line";
import { groupsOf, sortedRuns } from "./run-order";
import { askedFor, choiceOf, FIRST, isNumber, MAX_RUNS, PAGE, partsOf, pathOf, sortedBy, sortOf, sortText, withParts, type Choice } from "./run-query";
import { useRunChanges } from "./run-changes";
import { RunTable } from "./run-table";
import { Views } from "./views";

const INTERVAL_MS = 4000;
const TABS = [{ id: "table", label: "Table" }, { id: "analysis", label: "Analysis" }];
/** The tag of an experiment with its note. */
const NOTE = "mlflow.note.content";
const MAX_VALUES = 50;
/** Values of a field that the filter line offers. */

const Analysis = late(() => import("./analysis").then((one) => one.Analysis));

export function RunsScreen() {
  const { path, query } = usePlace();
  const experiment = experimentIn(path) ?? "";
  const isArchived = query.has("archived");
  const hasParts = query.has("parts");
  const tab = query.get("tab") === "analysis" ? "analysis" : "table";
  const views = useAnswer<RunView[]>(experiment ? pathOf(experiment, "views") : undefined);
  const viewName = query.get("view") ?? "";
  const view = views.value?.find((one) => one.name === viewName);
  const isWaiting = viewName !== "" && !views.value && !views.error;
  const choice = choiceOf(query, view);
  const sort = sortOf(choice.sort);
  const runsPath = withParts(pathOf(experiment, "runs"), hasParts);
  const wanted = partsOf(choice.columns);
  // While an answer is on its way, the earlier one stays; and another order of columns that are here asks nothing.
  const kept = useRef<{ path: string; table: RunTableAnswer }>(undefined);
  const before = kept.current?.path === runsPath ? kept.current.table : undefined;
  const known = new Set(before?.columns.map((one) => one.field));
  const own = JSON.stringify([runsPath, choice.where, choice.columns, choice.group, isArchived, sort.filter((key) => !known.has(key.field))]);
  const base = useRef({ own: "", sort: "" });
  if (base.current.own !== own) base.current = { own, sort: choice.sort };
  const firstSort = base.current.sort;
  const first = useAnswer<RunTableAnswer>(isWaiting ? undefined : runsPath,
    { ...askedFor({ ...choice, sort: firstSort }, withUsed(wanted, sortOf(firstSort), choice.group), isArchived), limit: FIRST });
  const fields = useAnswer<RunField[]>(isWaiting ? undefined : withParts(pathOf(experiment, "run-fields"), hasParts), { archived: isArchived ? "all" : "false" }, true);
  const usual = useMemo(() => (first.value?.columns ?? []).map((one) => one.field), [first.value]);
  const asked = withUsed(wanted.length ? wanted : usual, sort, choice.group);
  // All runs are read once, and sorted here: another order needs no answer of the server.
  const all = useReading<RunTableAnswer>(
    tab === "table" && first.value && first.value.total > FIRST ? JSON.stringify([runsPath, choice.where, isArchived, [...asked].sort()]) : "",
    (signal) => allRuns(runsPath, askedFor({ ...choice, sort: "" }, asked, isArchived), signal), true);
  const table = (first.value && first.value.total > FIRST && all.value ? all.value : first.value) ?? before;
  if (table && table !== before) kept.current = { path: runsPath, table };
  const names = useMemo(() => (table?.columns ?? []).map((one) => one.field), [table]);
  const runs = useMemo(() => (table ? sortedRuns(table.runs, names, sort) : []), [table, choice.sort]);
  const shown = wanted.length ? wanted : names;
  const columns = useMemo(() => shown.flatMap((field) => table?.columns.filter((one) => one.field === field) ?? []), [table, choice.columns]);
  const shownRuns = useMemo(() => runs.map((run) => valuesOf(run, columns.map((one) => names.indexOf(one.field)))), [runs, columns]);
  const groups = useMemo(() => {
    const at = names.indexOf(choice.group);
    if (!choice.group || at < 0) return undefined;
    const byName = new Map(shownRuns.map((run) => [run.job, run]));
    return groupsOf(runs, at).map((group) => ({ ...group, runs: group.runs.map((run) => byName.get(run.job)!) }));
  }, [runs, shownRuns, choice.group]);
  const [hasPicker, setPicker] = useState(false);
  const reload = useThrottled(() => [first, all, fields].forEach((answer) => answer.reload()), INTERVAL_MS);
  useRunChanges(experiment, reload);
  const selected = useMemo(() => new Set(query.getAll("sel")), [query]);
  const select = (of: string[], isSelected: boolean) => {
    const next = new Set(selected);
    for (const name of of) isSelected ? next.add(name) : next.delete(name);
    setQuery({ sel: [...next] });
  };
  const change = (words: Partial<Choice>) => setQuery({ ...choice, ...words, view: "" }, false);
  const chosen = (table?.runs ?? []).filter((run) => selected.has(run.job));
  const valuesFor = useCallback((field: string) => {
    const at = names.indexOf(field);
    const found = new Set<string>();
    for (const run of table?.runs ?? []) {
      const value = at >= 0 ? run.values[at] : field === "state" ? run.state : null;
      if (value != null && found.size < MAX_VALUES) found.add(String(value));
    }
    return [...found].sort();
  }, [table, names]);
  useKey("c", "Compare the selected runs", () => chosen.length > 1 && chosen.length <= MAX_COMPARED && go(href("/compare", { job: chosen.map((run) => run.job) })));
  const error = first.error ?? all.error;
  const isFilterWrong = error?.where.startsWith("where:") ?? false;
  return (
    <div class="screen runs">
      <h1>{experiment || "Runs"}</h1>
      {experiment && <ExperimentNote experiment={experiment} />}
      <div class="filters run-filters">
        <FilterLine value={choice.where} fields={fields.value ?? []} valuesOf={valuesFor} apply={(where) => change({ where })} error={isFilterWrong ? error : undefined} />
        {tab === "table" && <button type="button" onClick={() => setPicker(true)}>Columns</button>}
        {tab === "table" && (
          <label class="select">
            <span>Group by</span>
            <select value={choice.group} onChange={(event) => change({ group: event.currentTarget.value })}>
              <option value="">nothing</option>
              {[...new Set([...(choice.group ? [choice.group] : []), ...(fields.value ?? []).filter((one) => !isNumber(one.unit)).map((one) => one.field)])].map((field) => <option key={field} value={field}>{field}</option>)}
            </select>
          </label>
        )}
        {experiment && <Views experiment={experiment} views={views.value ?? []} chosen={viewName} choice={choice} reload={views.reload} />}
        <label class="check"><input type="checkbox" checked={hasParts} onChange={(event) => setQuery({ parts: event.currentTarget.checked ? "1" : "" })} /> trials and steps</label>
        <label class="check"><input type="checkbox" checked={isArchived} onChange={(event) => setQuery({ archived: event.currentTarget.checked ? "1" : "" })} /> archived too</label>
      </div>
      {viewName && views.value && !view && <p class="note">There is no view {viewName} here any more.</p>}
      {error && !isFilterWrong && <Refused error={error} />}
      {!table && !error && <p class="nothing loading">Loading…</p>}
      {table && !error && (
        <>
          <Tabs tabs={TABS} chosen={tab} label="Of these runs" />
          <div id="tab-panel" role="tabpanel" aria-labelledby={`tab-${tab}`}>
            <h2 class="hidden">{TABS.find((one) => one.id === tab)!.label}</h2>
            <p class="muted run-count" role="status">{countText(table, choice)}</p>
            {table.total === 0 ? <Nothing>{choice.where ? "No run meets the filter." : "No runs yet."} {choice.where && <button type="button" onClick={() => change({ where: "" })}>Without a filter</button>}</Nothing>
              : tab === "analysis" ? <Analysis path={runsPath} experiment={experiment} where={choice.where} isArchived={isArchived} fields={fields.value} selected={selected} />
              : <RunTable runs={shownRuns} groups={groups} columns={columns} sort={sort} selected={selected} select={select}
                  order={(column, isAdded) => change({ sort: sortText(sortedBy(sort, column.field, isNumber(column.unit), isAdded)) })} />}
          </div>
        </>
      )}
      {hasPicker && <ColumnPicker fields={fields.value ?? []} columns={wanted.length ? wanted : usual} choose={(next) => change({ columns: next.join(",") })} onClose={() => setPicker(false)} />}
      {chosen.length > 0 && (
        <SelectionBar jobs={chosen.map((run) => ({ name: run.job, state: run.state, archived: run.is_archived, type: run.type }))}
          clear={() => setQuery({ sel: [] })} done={reload} />
      )}
    </div>
  );
}

function ExperimentNote({ experiment }: { experiment: string }) {
  const mayAct = useMayAct();
  const answer = useAnswer<Experiment>("/experiments/named", { name: experiment }, true);
  if (!answer.value) return null;
  return (
    <Note text={answer.value.tags[NOTE] ?? ""} mayEdit={mayAct} of={experiment}
      save={(note, seen) => act("PUT", "/experiments/note", { name: experiment }, { note, seen }).then(answer.reload)}
      read={() => get<Experiment>("/experiments/named", { name: experiment }).then((now) => now.tags[NOTE] ?? "")} />
  );
}

/** The columns that are asked for: those that are shown, and those by which runs are sorted and grouped. None = the usual ones. */
const withUsed = (columns: string[], sort: { field: string }[], group: string): string[] =>
  columns.length ? [...new Set([...columns, ...sort.map((key) => key.field), ...(group ? [group] : [])])] : [];

const valuesOf = (run: RunRow, order: number[]): RunRow => ({ ...run, values: order.map((n) => run.values[n] ?? null) });

function countText(table: RunTableAnswer, choice: Choice): string {
  const met = choice.where ? `${counted(table.total, "run")} ${table.total === 1 ? "meets" : "meet"} the filter` : counted(table.total, "run");
  return table.total > MAX_RUNS ? `${met}; the first ${whole(MAX_RUNS)} are here: narrow them with the filter` : met;
}

async function allRuns(path: string, query: Query, signal: AbortSignal): Promise<RunTableAnswer> {
  const pages: RunTableAnswer[] = [];
  let runs = 0;
  do {
    const page = await get<RunTableAnswer>(path, { ...query, limit: PAGE, offset: runs }, signal);
    pages.push(page);
    runs += page.runs.length;
  } while (pages.at(-1)!.runs.length === PAGE && runs < MAX_RUNS);
  const last = pages.at(-1)!;
  // A run that came in between has moved the others down a page.
  const unique = new Map(pages.flatMap((page) => page.runs).map((run) => [run.job, run]));
  return { ...last, runs: [...unique.values()] };
}
