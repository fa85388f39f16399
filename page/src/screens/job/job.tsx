/** One job: its answer first (why it failed, what it waits for, how far it is), then everything about it. */

import { useEffect, useRef, useState } from "preact/hooks";
import type { ComponentType } from "preact";
import { segment } from "../../api";
import { counted, number, whole } from "../../format";
import { moment, useAnswer, useEvents, useJobEvents, type Answer } from "../../hooks";
import { late } from "../../parts/late";
import { Answered, Refused } from "../../parts/placeholders";
import { shownState, StateWord } from "../../parts/job-state";
import { bestOf, groundOf } from "../../parts/primary-metric";
import { Tabs, type Tab } from "../../parts/tabs";
import { Ago, Took } from "../../parts/time";
import { go, href, jobHref, jobIn, place, usePlace } from "../../router";
import { stream } from "../../stream";
import type { Job, StoryLine } from "../../types";
import { ActionButtons } from "./actions";
import { Cause } from "./status-sentence";
import { elasticOf, sizeOf } from "./progress";
import { Labels } from "./labels";
import { LogsTab } from "./logs";
import { RunAgain } from "./run-again-button";
import { Services } from "./services";
import { SlowRank } from "./slow-rank";
import { StateStrip } from "./state-timeline";
import { DefinitionTab, StoryTab } from "./story-and-file";

export function JobScreen({ name }: { name: string }) {
  const answer = useAnswer<Job>(`/jobs/${segment(name)}`);
  // No job is followed: the stream of all jobs is.
  useEffect(() => void (answer.error && !answer.value && stream.follow("")), [answer.error]);
  // The code of the tab in the address comes beside the job, not behind it.
  useEffect(() => void LATER[place().query.get("tab") ?? ""]?.().catch(() => undefined), []);
  // A job that was deleted may be submitted again under its name: it is another one, with a story and logs of its own.
  if (answer.error && !answer.value) {
    return (
      <div class="screen">
        <h1>{name}</h1>
        <Refused error={answer.error} />
        <p><a href={href("/")}>All jobs</a></p>
      </div>
    );
  }
  return <Answered answer={answer}>{(job) => <LiveJob key={job.submitted_at} first={job} answer={answer} />}</Answered>;
}

/** first: the job as it was asked for; events bring what comes later. */
function LiveJob({ first, answer }: { first: Job; answer: Answer<Job> }) {
  const { asked, reload } = answer;
  const [job, setJob] = useState(first);
  const [story, setStory] = useState<StoryLine[]>(first.story ?? []);
  const changed = useRef(asked);
  useEffect(() => {
    if (changed.current <= asked) setJob(first);
    setStory((lines) => ((first.story?.length ?? 0) > lines.length ? first.story! : lines));
  }, [first]);
  const take = (now: Job) => {
    if (now.submitted_at !== first.submitted_at) return reload();
    changed.current = moment();
    setJob(now);
  };
  useJobEvents(first.name, "state", take);
  useEvents("jobs", (changes) => {
    const mine = changes.jobs.find((one) => one.name === first.name);
    if (mine) take(mine);
    if (changes.removed.includes(first.name)) go(href("/"), true);
  });
  useJobEvents(first.name, "story", (line) => setStory((lines) => ((lines.at(-1)?.n ?? 0) >= line.n ? lines : [...lines, line])));
  const { query } = usePlace();
  // A job that starts, or ends, doesn't take another tab from under one's eyes.
  const [firstShown] = useState(() => firstTab(first, query));
  const isLogs = chosenTab(job, query, firstShown) === "logs";
  // The logs follow the job themselves, behind what they have read.
  useEffect(() => {
    if (isLogs) return;
    stream.follow(job.name, 0, story.length, false);
    return () => stream.follow("");
  }, [isLogs]);
  return (
    <div class="screen job">
      <Head job={job} links={first} reload={reload} take={take} />
      <StateStrip job={job} story={story} />
      <Cause job={job} story={story} />
      <Services job={job} />
      {job.type === "command" && job.state === "running" && job.world_size > 1 && <SlowRank job={job} story={story} />}
      {job.tags.rehearsal && <RehearsalNote job={job} story={story} />}
      <Body job={job} story={story} first={firstShown} />
    </div>
  );
}

function Head({ job, links, reload, take }: { job: Job; links: Links; reload: () => void; take: (job: Job) => void }) {
  return (
    <header class="job-head">
      <div class="job-title">
        <h1>{job.name}</h1>
        <StateWord state={shownState(job)} />
        {job.archived && <span class="tag">archived</span>}
        <div class="buttons">
          {job.type === "command" && <a class="button" href={href("/compare", { job: job.name })}>Compare</a>}
          {job.type !== "deployment" && <RunAgain job={job} />}
          <ActionButtons jobs={[job]} onDone={(action) => (action === "delete" ? leave(job.name) : reload())} onRefused={reload} />
        </div>
      </div>
      <dl class="facts">
        {job.display_name && job.display_name !== job.name && <Fact label="called">{job.display_name}</Fact>}
        {job.parent && <Fact label="part of"><a href={jobHref(job.parent)}>{job.parent}</a></Fact>}
        {links.continues && (
          <Fact label="continues">
            {links.origin ? <a href={jobHref(links.origin)}>{links.origin}</a> : `${links.continues.job}, which was deleted,`}
            {links.continues.step === null ? " from its last checkpoint" : ` from its checkpoint at step ${whole(links.continues.step)}`}
          </Fact>
        )}
        {links.origin && !links.continues && <Fact label="run again from"><a href={jobHref(links.origin)}>{links.origin}</a></Fact>}
        <Successors label="continued by" names={links.continued_by ?? []} />
        <Successors label="run again as" names={(links.successors ?? []).filter((name) => !links.continued_by?.includes(name))} />
        <Fact label="experiment"><a href={href("/", { experiment: job.experiment })}>{job.experiment}</a></Fact>
        {job.person && <Fact label="person"><a href={href("/", { person: job.person })}>{job.person}</a></Fact>}
        <Fact label="size">{sizeOf(job)}{job.type === "command" ? `, ${job.launcher}` : ""}</Fact>
        {job.elastic && <Fact label="nodes">{elasticOf(job)}</Fact>}
        {job.mesh && <Fact label="mesh">{Object.entries(job.mesh).map(([name, size]) => `${name} ${size}`).join(" × ")}</Fact>}
        <Fact label="compute"><a href={href("/computes", { name: job.compute })}>{job.compute}</a></Fact>
        {job.type === "command" && <Fact label="environment">{job.environment === CURRENT ? <span class="hinted" title={CURRENT_MEANS}>{CURRENT}</span> : job.environment}</Fact>}
        {job.primary && <Fact label={job.primary.name}><strong class="number" title={groundOf(job.primary)}>{number(job.primary.value)}</strong> at step {whole(job.primary.step)}{bestOf(job.primary) && <span class="muted">, {bestOf(job.primary)}</span>}</Fact>}
        {job.outputs.filter((one) => one.place === "in_place").map((one) => (
          <Fact key={one.name} label={one.name}><a href={jobHref(job.name, { tab: "outputs" })}>{one.asset || one.uri}</a></Fact>
        ))}
        <Fact label="submitted"><Ago at={job.submitted_at} /></Fact>
        {job.started_at && <Fact label="ran for"><Took from={job.started_at} to={job.ended_at} /></Fact>}
        {job.attempt > 1 && <Fact label="attempt">{job.attempt}</Fact>}
        {job.round > 1 && <Fact label="round">{job.round}</Fact>}
        {job.failures.length > (job.state === "failed" ? 1 : 0) && <Fact label="failed">{counted(job.failures.length, "time")}</Fact>}
      </dl>
      <Labels job={job} take={take} />
    </header>
  );
}

type Links = Pick<Job, "origin" | "successors" | "continues" | "continued_by">;

const MAX_SUCCESSORS = 5;

function Successors({ label, names }: { label: string; names: string[] }) {
  if (!names.length) return null;
  return (
    <Fact label={label}>
      {names.slice(0, MAX_SUCCESSORS).map((name, n) => <>{n > 0 && ", "}<a key={name} href={jobHref(name)}>{name}</a></>)}
      {names.length > MAX_SUCCESSORS && ` and ${whole(names.length - MAX_SUCCESSORS)} more`}
    </Fact>
  );
}

/** Goes to the list, unless the event of the deletion, or the person, has left the job's screen already. */
function leave(name: string): void {
  if (jobIn(place().path) === name) go(href("/"), true);
}

const CURRENT = "current";
const CURRENT_MEANS = "The Python interpreter that is there: the server's own, or on a remote compute that of its `programs`. Nothing is built.";

function Fact({ label, children }: { label: string; children: preact.ComponentChildren }) {
  return <div><dt>{label}</dt><dd>{children}</dd></div>;
}

interface TabProps { job: Job; story: StoryLine[] }

const LATER: Record<string, () => Promise<ComponentType<TabProps>>> = {
  overview: () => import("./overview").then((one) => one.OverviewTab),
  metrics: () => import("./metrics").then((one) => one.MetricsTab),
  resources: () => import("./resources").then((one) => one.ResourcesTab),
  ranks: () => import("./ranks").then((one) => one.RanksTab),
  outputs: () => import("./outputs").then((one) => one.OutputsTab),
  trials: () => import("./sweep").then((one) => one.TrialsTab),
  curves: () => import("./sweep-curves").then((one) => one.TrialCurvesTab),
  settings: () => import("./sweep").then((one) => one.SettingsTab),
  graph: () => import("./pipeline").then((one) => one.GraphTab),
  rehearsal: () => import("./rehearsal").then((one) => one.RehearsalTab),
};

const SCREENS: Record<string, ComponentType<TabProps>> = {
  logs: LogsTab,
  story: StoryTab,
  file: DefinitionTab,
  ...Object.fromEntries(Object.entries(LATER).map(([id, load]) => [id, late(load)])),
};

const COMMAND: Tab[] = [
  { id: "overview", label: "Overview" }, { id: "logs", label: "Logs" }, { id: "metrics", label: "Metrics" }, { id: "ranks", label: "Ranks" },
  { id: "outputs", label: "Artifacts" }, { id: "resources", label: "Resources" }, { id: "story", label: "History" },
  { id: "file", label: "Job file" },
];
const SWEEP: Tab[] = [
  { id: "trials", label: "Trials" }, { id: "curves", label: "Curves" }, { id: "settings", label: "Settings" },
  { id: "story", label: "History" }, { id: "outputs", label: "Artifacts" }, { id: "file", label: "Job file" },
];
const PIPELINE: Tab[] = [
  { id: "graph", label: "Graph" },
  { id: "story", label: "History" }, { id: "outputs", label: "Artifacts" }, { id: "file", label: "Job file" },
];
const DEPLOYMENT: Tab[] = [{ id: "story", label: "History" }];

const REHEARSED: Tab[] = [...COMMAND, { id: "rehearsal", label: "Rehearsal" }];
const RehearsalNote = late<TabProps>(() => import("./rehearsal").then((one) => one.RehearsalNote), null);

function tabsOf(job: Job): Tab[] {
  if (job.type === "command") return job.tags.rehearsal ? REHEARSED : COMMAND;
  if (job.type === "deployment") return DEPLOYMENT;
  return job.type === "sweep" ? SWEEP : PIPELINE;
}

/** Words of the address that choose lines of a log. */
const LOG_WORDS = ["rank", "node", "search", "at", "level"];
const AT_WORK = new Set<string>(["running", "stopping", "finalizing", "completed", "canceled"]);

/** The tab that a job is opened with: of one that fails or waits, what it has printed. */
function firstTab(job: Job, query: URLSearchParams): string {
  const tabs = tabsOf(job);
  if (tabs[0]!.id !== "overview") return tabs[0]!.id;
  return AT_WORK.has(job.state) && !LOG_WORDS.some((word) => query.has(word)) ? "overview" : "logs";
}

function chosenTab(job: Job, query: URLSearchParams, first: string): string {
  const wanted = query.get("tab") ?? "";
  if (tabsOf(job).some((tab) => tab.id === wanted)) return wanted;
  return first === "overview" && LOG_WORDS.some((word) => query.has(word)) ? "logs" : first;
}

function Body({ job, story, first }: TabProps & { first: string }) {
  const tabs = tabsOf(job);
  const chosen = chosenTab(job, usePlace().query, first);
  const Chosen = SCREENS[chosen]!;
  return (
    <section class="job-body">
      <Tabs tabs={tabs} chosen={chosen} label="Of this job" />
      <div id="tab-panel" role="tabpanel" aria-labelledby={`tab-${chosen}`} class={`panel panel-${chosen}`}>
        <h2 class="hidden">{tabs.find((tab) => tab.id === chosen)!.label}</h2>
        <Chosen job={job} story={story} />
      </div>
    </section>
  );
}

