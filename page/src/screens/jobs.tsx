/** All jobs: which run, which wait and why, which failed; chosen by words, state and experiment. */

import { Component } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { about, number, size, whole } from "../format";
import { moment, useAnswer, useEvents, useGradual, useInterval, useNow, useThrottled } from "../hooks";
import { useKey } from "../keys";
import { Nothing, Refused } from "../parts/placeholders";
import { bestOf, groundOf } from "../parts/primary-metric";
import { Sparkline } from "../parts/sparkline";
import { ENDED, shownState, StateWord } from "../parts/job-state";
import { Ago, Took } from "../parts/time";
import { go, href, jobHref, setQuery, usePlace } from "../router";
import type { Experiment, Job, JobChanges, JobCurve, Start, Uses } from "../types";
import { notFiniteOf, sizeOf, wordOf } from "./job/progress";
import { assetsOf, isModel } from "./job/results";
import { SlowWord } from "./job/slow-rank";
import { FirstSteps } from "./first-steps";
import { SelectionBar } from "./job/actions";
import { changesSince, listedNow, pagesBefore, useJobPages, withEvent, type Changes } from "./job-list";
import { MAX_COMPARED } from "./compare-requests";
import { choiceOf, countsOf, GROUPS, hangingOf, isChosen, listOf, sumsOf, PAGE, type Choice } from "./jobs-filter";

/** The jobs that were selected last. Who opens one and goes back finds them so. */
let lastSelected: ReadonlySet<string> = new Set();

export function JobsScreen() {
  const { query: words } = usePlace();
  const choice = choiceOf(words);
  const [path, query] = listOf(words);
  const key = JSON.stringify(query);
  const [shown, setShown] = useState(() => ({ key, pages: Math.max(1, pagesBefore(path, query)) }));
  const [isKnown] = useState(() => pagesBefore(path, query) > 0);
  const pages = shown.key === key ? shown.pages : 1;
  const page = useJobPages(path, query, pages);
  const [changes, setChanges] = useState<Changes>(new Map());
  const [selected, setSelected] = useState<ReadonlySet<string>>(lastSelected);
  useEffect(() => void (lastSelected = selected), [selected]);
  const reload = useThrottled(page.reload, 1000);
  const jobs = useMemo(() => listedNow(page.value?.jobs ?? [], changes, page.asked), [page.value, page.asked, changes]);

  useEvents("jobs", ({ jobs: changed, removed, is_partial }: JobChanges) => {
    const known = new Set(jobs.map((job) => job.name));
    // Trials and steps are no part of this list, unless it is that of their parent, or of all jobs with a text.
    const own = changed.filter((job) => known.has(job.name) || !job.parent || choice.parent || hasText(job.name, choice.text));
    setChanges((before) => withEvent(before, { jobs: own, removed, is_partial }, moment()));
    if (is_partial || own.some((job) => known.has(job.name) !== isChosen(choice, job))) reload();
  });
  useEffect(() => setChanges((before) => changesSince(before, page.asked)), [page.asked]);
  useEvents("again", page.reload);
  useEffect(() => {
    if (pages > 1) page.reload();
  }, [pages]);
  const toggle = (job: Job) =>
    setSelected((before) => {
      const all = new Set(before);
      if (!all.delete(idOf(job))) all.add(idOf(job));
      return all;
    });
  const chosen = jobs.filter((job) => selected.has(idOf(job)));
  const counts = useCounts(choice);
  const reloadAll = () => {
    page.reload();
    counts.reload();
  };

  useKey("c", "Compare the selected jobs", () => chosen.length > 1 && chosen.length <= MAX_COMPARED && setCompare(chosen));
  return (
    <div class="screen">
      <h1 class="hidden">Jobs</h1>
      <Filters choice={choice} counts={counts.sums} />
      {page.error && <Refused error={page.error} />}
      {page.value === undefined && !page.error ? <p class="nothing loading">Loading…</p> : (
        <JobTable jobs={jobs} selected={selected} toggle={toggle} isKnown={isKnown} />
      )}
      {page.value && jobs.length === 0 && <Empty choice={choice} />}
      {page.value?.after && (
        <div class="buttons"><button type="button" onClick={() => setShown({ key, pages: pages + 1 })}>Show older jobs</button></div>
      )}
      {chosen.length > 0 && (
        <SelectionBar jobs={chosen} clear={() => setSelected(new Set())} done={reloadAll} />
      )}
    </div>
  );
}

/** Of a job, also where another one was submitted under its name: who selected one didn't select the other. */
const idOf = (job: Job): string => `${job.name} ${job.submitted_at}`;

const hasText = (name: string, text: string): boolean => text !== "" && name.toLowerCase().includes(text.toLowerCase());

function setCompare(jobs: Job[]): void {
  go(href("/compare", { job: jobs.map((job) => job.name) }));
}

function Filters({ choice, counts }: { choice: Choice; counts: Record<string, number> }) {
  const experiments = useAnswer<Experiment[]>("/experiments", {}, true);
  const known = new Set(experiments.value?.map((one) => one.name));
  const reload = useThrottled(experiments.reload, 1500);
  useEvents("jobs", (event) => experiments.value && event.jobs.some((job) => !known.has(job.experiment)) && reload());
  const names = new Set([...(experiments.value ?? []).map((one) => one.name), ...(choice.experiment ? [choice.experiment] : [])]);
  useKey("/", "Filter", (event) => {
    event.preventDefault();
    document.getElementById("filter")?.focus();
  });
  // On a phone they are folded to one row.
  const [isOpen, setOpen] = useState(false);
  const active = [choice.group, choice.experiment, choice.person, choice.parent, choice.isArchived].filter(Boolean).length;
  return (
    <div class="filters">
      <input id="filter" type="search" placeholder="Filter by name, experiment, compute, tag" aria-label="Filter jobs"
        value={choice.text} onInput={(event) => setQuery({ text: event.currentTarget.value })}
        onKeyDown={(event) => event.key === "Escape" && event.currentTarget.blur()} />
      <button type="button" class="filter-toggle" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>Filters{active > 0 && <span class="count">{active}</span>}</button>
      <div class={`filter-rest${isOpen ? " open" : ""}`}>
        <div class="chips" role="group" aria-label="State">
          <Chip group="" label="all" chosen={choice.group} count={counts[""]} />
          {Object.keys(GROUPS).filter((group) => group !== "hanging" || counts[group] || choice.group === group).map((group) => (
            <Chip key={group} group={group} label={group} chosen={choice.group} count={counts[group]} />
          ))}
        </div>
        <label class="select">
          <span class="hidden">Experiment</span>
          <select value={choice.experiment} onChange={(event) => setQuery({ experiment: event.currentTarget.value })}>
            <option value="">every experiment</option>
            {[...names].map((name) => <option key={name} value={name}>{name}</option>)}
          </select>
        </label>
        <PersonFilter chosen={choice.person} />
        <label class="check">
          <input type="checkbox" checked={choice.isArchived}
            onChange={(event) => setQuery({ archived: event.currentTarget.checked ? "1" : "" })} />
          archived
        </label>
        {choice.parent && (
          <span class="chip chosen">part of <a href={jobHref(choice.parent)}>{choice.parent}</a></span>
        )}
      </div>
    </div>
  );
}

/** Where several persons use the server. */
function PersonFilter({ chosen }: { chosen: string }) {
  const uses = useAnswer<Uses>("/quotas/use", {}, true);
  const active = (uses.value?.uses ?? []).filter((one) => one.kind === "person" && one.name).map((one) => one.name);
  const names = new Set([...active, ...(chosen ? [chosen] : [])]);
  if (names.size < 2 && !chosen) return null;
  return (
    <label class="select">
      <span class="hidden">Person</span>
      <select value={chosen} onChange={(event) => setQuery({ person: event.currentTarget.value })}>
        <option value="">every person</option>
        {[...names].map((name) => <option key={name} value={name}>{name}</option>)}
      </select>
    </label>
  );
}

function Chip({ group, label, chosen, count }: { group: string; label: string; chosen: string; count?: number | undefined }) {
  return (
    <button type="button" class={`chip${group === chosen ? " chosen" : ""}`} aria-pressed={group === chosen}
      title={GROUPS[group] && GROUPS[group].length > 1 ? GROUPS[group].join(", ") : undefined} onClick={() => setQuery({ state: group })}>
      {label}{count === undefined ? null : <span class="count">{whole(count)}</span>}
    </button>
  );
}

/** How many jobs each filter would list. */
function useCounts(choice: Choice): { sums: Record<string, number>; reload: () => void } {
  const asked = countsOf(choice);
  const answer = useAnswer<Record<string, number>>(asked?.[0], asked?.[1] ?? {}, true);
  const sums = answer.value ? sumsOf(answer.value) : {};
  const hanging = hangingOf(choice, sums.running ?? 0);
  const hung = useAnswer<Record<string, number>>(hanging?.[0], hanging?.[1] ?? {}, true);
  const reloadAll = () => {
    answer.reload();
    hung.reload();
  };
  const reload = useThrottled(reloadAll, 1500);
  useEvents("jobs", ({ jobs, removed, is_partial }) => {
    if (is_partial || removed.length || jobs.some((job) => (job.parent ?? "") === choice.parent)) reload();
  });
  useEvents("again", reload);
  return { sums: { ...sums, hanging: hung.value?.running ?? 0 }, reload: reloadAll };
}

const MAX_WATCHED = 8;
/** Jobs of a list whose ranks are compared: each is a request of its own. */

function JobTable({ jobs, selected, toggle, isKnown }: {
  jobs: Job[]; selected: ReadonlySet<string>; toggle: (job: Job) => void; isKnown: boolean;
}) {
  const withMetric = jobs.filter((job) => job.primary).slice(0, PAGE).map((job) => job.name);
  const curves = useAnswer<JobCurve[]>(withMetric.length ? "/curves" : undefined, { job: withMetric, max_points: 40 });
  const reload = useThrottled(curves.reload, 3000);
  useEvents("jobs", (event) => event.jobs.some((job) => job.primary && !ENDED.has(job.state)) && reload());
  // Of other jobs they are asked for anew: those that are drawn stay until then.
  const drawnCurves = useRef<JobCurve[]>([]);
  if (curves.value) drawnCurves.current = curves.value;
  const byJob = new Map(drawnCurves.current.map((curve) => [curve.job, curve]));
  const hasPersons = new Set(jobs.map((job) => job.person)).size > 1;
  const drawn = useGradual(jobs.length, isKnown);
  const starts = useStarts(jobs.some((job) => job.state === "queued"));
  const watched = new Set(jobs.filter((job) => job.state === "running" && job.type === "command" && job.world_size > 1).slice(0, MAX_WATCHED).map((job) => job.name));
  useRowKeys();
  if (jobs.length === 0) return null;
  return (
    <table class="jobs">
      <thead>
        <tr>
          <th scope="col"><span class="hidden">Selected</span></th>
          <th scope="col">Job</th>
          <th scope="col">State</th>
          <th scope="col" class="col-metric">Metric</th>
          <th scope="col" class="col-size">Size</th>
          <th scope="col" class="right">Took</th>
          <th scope="col" class="right col-age">Submitted</th>
        </tr>
      </thead>
      <tbody>
        {jobs.slice(0, drawn).map((job) => (
          <JobRow key={job.name} job={job} curve={byJob.get(job.name)} isSelected={selected.has(idOf(job))} toggle={toggle}
            hasPersons={hasPersons} isWatched={watched.has(job.name)} start={job.state === "queued" ? starts.get(job.name) : undefined} />
        ))}
      </tbody>
    </table>
  );
}

interface RowProps {
  job: Job; curve: JobCurve | undefined; isSelected: boolean; toggle: (job: Job) => void; hasPersons: boolean;
  isWatched: boolean; start: Start | undefined;
}

const START_INTERVAL_MS = 30_000;

/** When the jobs that wait may start. */
function useStarts(hasWaiting: boolean): Map<string, Start> {
  const answer = useAnswer<Start[]>(hasWaiting ? "/starts" : undefined, {}, true);
  const reload = useThrottled(answer.reload, 3000);
  useEvents("jobs", () => hasWaiting && reload());
  useInterval(() => hasWaiting && answer.reload(), START_INTERVAL_MS);
  return new Map((answer.value ?? []).map((one) => [one.job, one]));
}

/** When it may start, no more exactly than that is known; where it isn't, nothing. */
function StartWord({ start }: { start: Start }) {
  const now = useNow();
  if (!start.at) return null;
  return <span class="under-word number" title={start.sentence}>{start.at === start.latest ? "≤" : "≈"} {about(Math.max(0, (Date.parse(start.at) - now) / 1000))}</span>;
}

/** A row is drawn again only when its own job changes: while one job runs, the others stay as they are. */
class JobRow extends Component<RowProps> {
  override shouldComponentUpdate(next: RowProps): boolean {
    const now = this.props;
    return next.job !== now.job || next.curve !== now.curve || next.isSelected !== now.isSelected || next.hasPersons !== now.hasPersons
      || next.isWatched !== now.isWatched || next.start?.at !== now.start?.at || next.start?.sentence !== now.start?.sentence;
  }

  override render() {
    return <Row {...this.props} />;
  }
}

function Row({ job, curve, isSelected, toggle, hasPersons, isWatched, start }: RowProps) {
  const word = wordOf(job);
  return (
    <tr class={isSelected ? "selected" : ""}>
      <td class="col-check">
        <input type="checkbox" checked={isSelected} aria-label={`Select ${job.name}`} onChange={() => toggle(job)} />
      </td>
      <td class="col-name">
        <a class="row-link" href={jobHref(job.name)}>{job.name}</a>
        <span class="under">
          {job.type !== "command" && <span class="tag">{job.type}</span>}
          <span>experiment {job.experiment}</span>
          {hasPersons && job.person && <span>{job.person}</span>}
        </span>
      </td>
      <td class="col-state">
        <StateWord state={shownState(job)} />{start && <> <StartWord start={start} /></>}
        {word && <span class={`clamp ${job.state === "failed" ? "cause-word" : "under-word"}`} title={word}>{word}</span>}
        {job.not_finite && <span class="under-word not-finite">{notFiniteOf(job.not_finite)}</span>}
        {assetsOf(job).map((one) => (
          <span key={one.name} class="under-word">
            {isModel(one) ? "model" : "output"} <a href={jobHref(job.name)}>{one.asset}</a>, {size(one.size)}
          </span>
        ))}
        {isWatched && <SlowWord job={job} />}
      </td>
      <td class="col-metric">
        {job.best_trial && (
          <>
            <span class="number">{number(job.best_trial.value)}</span>
            <span class="under">best {job.best_trial.name}, {job.best_trial.job}</span>
          </>
        )}
        {job.primary && (
          <>
            {curve && <Sparkline steps={curve.steps} values={curve.values} />}
            <span class="number" title={[`step ${job.primary.step}`, bestOf(job.primary)].filter(Boolean).join("; ")}>{number(job.primary.value)}</span>
            <span class="under" title={groundOf(job.primary)}>{job.primary.source === "experiment" || job.primary.source === "job" ? "★ " : ""}{job.primary.name}</span>
          </>
        )}
      </td>
      <td class="col-size"><span>{sizeOf(job)}</span><span class="under">{job.compute}</span></td>
      <td class="right"><Took from={job.started_at} to={job.ended_at} /></td>
      <td class="right col-age"><Ago at={job.submitted_at} /></td>
    </tr>
  );
}

/** j and k go from row to row; x selects. */
function useRowKeys(): void {
  const links = () => [...document.querySelectorAll<HTMLElement>("table.jobs .row-link")];
  const step = (by: number) => {
    const all = links();
    const at = all.indexOf(document.activeElement as HTMLElement);
    all[at < 0 ? 0 : Math.min(Math.max(at + by, 0), all.length - 1)]?.focus();
  };
  useKey("j", "The next job", () => step(1));
  useKey("k", "The job before", () => step(-1));
  useKey("x", "Select the job", () => {
    document.activeElement?.closest("tr")?.querySelector<HTMLInputElement>("input[type=checkbox]")?.click();
  });
}

function Empty({ choice }: { choice: Choice }) {
  const isFiltered = choice.text || choice.group || choice.experiment || choice.person || choice.isArchived || choice.parent;
  if (isFiltered) return <Nothing>No job matches. <a href={href("/")}>All jobs</a></Nothing>;
  return <FirstSteps />;
}
