/** The report of a rehearsal with each of its jobs: the verdict, what each fault has cost, what to change in the script. */

import { useEffect, useState } from "preact/hooks";
import { ApiError, get, getFile, segment } from "../../api";
import { whole } from "../../format";
import { useEvents, useThrottled } from "../../hooks";
import { Nothing, Refused } from "../../parts/placeholders";
import { StateIcon } from "../../parts/job-state";
import { href, jobHref, usePlace } from "../../router";
import type { FileEntry, Job, Rehearsal, RehearsalRun, StoryLine } from "../../types";
import { keeperOf, readReport, reportFile, roleOf, TAG } from "./rehearsal-report";

const MAX_BYTES = 8 << 20;
const LOOK_MS = 5000;

interface TabProps { job: Job; story: StoryLine[] }
interface Known { report?: Rehearsal | undefined; error?: ApiError | undefined }

async function reportOf(job: Job): Promise<Rehearsal | undefined> {
  const keeper = keeperOf(job);
  const path = reportFile(await get<FileEntry[]>(`/jobs/${segment(keeper)}/files`));
  if (!path) return undefined;
  const { bytes } = await getFile(keeper, path, MAX_BYTES);
  return readReport(new TextDecoder().decode(bytes));
}

/** The report, once it is there: it comes when the last job of the rehearsal has ended. */
function useReport(job: Job): Known | undefined {
  const [known, setKnown] = useState<Known>();
  const [turn, setTurn] = useState(0);
  const look = useThrottled(() => setTurn((n) => n + 1), LOOK_MS);
  useEvents("jobs", () => known && !known.report && look());
  useEffect(() => {
    let isOpen = true;
    reportOf(job).then(
      (report) => isOpen && setKnown({ report }),
      (error) => isOpen && setKnown(error instanceof ApiError && error.status !== 404 ? { error } : {}),
    );
    return () => void (isOpen = false);
  }, [job.tags[TAG], turn]);
  return known;
}

/** Above the tabs: what the rehearsal says of this job. */
export function RehearsalNote({ job }: TabProps) {
  const report = useReport(job)?.report;
  const { query } = usePlace();
  if (!report || query.get("tab") === TAG) return null;
  return (
    <p class={`note ${report.is_passed ? "tone-good" : "tone-wait"}`}>
      {roleOf(report, job.name)} <a href={jobHref(job.name, { tab: "rehearsal" })}>The rehearsal</a>: {report.verdict}
    </p>
  );
}

export function RehearsalTab({ job }: TabProps) {
  const known = useReport(job);
  if (!known) return <p class="nothing loading">Loading…</p>;
  if (known.error) return <Refused error={known.error} />;
  if (known.report) return <Report report={known.report} job={job} />;
  return (
    <Nothing>
      There is no report yet: it comes when the last job of the rehearsal has ended. <a href={href("/", { text: job.tags[TAG] })}>Its jobs so far</a>
    </Nothing>
  );
}

function Report({ report, job }: { report: Rehearsal; job: Job }) {
  const differing = report.runs.filter((run) => run.differences.length > 0);
  return (
    <div class="rehearsal">
      <p><StateIcon state={report.is_passed ? "completed" : "failed"} /> <strong>{report.verdict}</strong></p>
      {report.observations.length > 0 && <ul class="problems">{report.observations.map((one) => <li key={one.kind}>{one.sentence}</li>)}</ul>}
      <Hints report={report} />
      <h2>Runs</h2>
      <Runs report={report} job={job} />
      {differing.length > 0 && <Differences runs={differing} />}
      <p class="muted">
        Compared: {report.judged.length ? `the metrics ${report.judged.join(", ")}, by name, rank and step, and ` : ""}files of outputs and checkpoints, by hash.
        {report.unjudged.length > 0 && ` Not judged, since they differ between the unbroken jobs: ${report.unjudged.join(", ")}.`}
        {` ${report.file} on ${report.compute}; seed ${report.seed}. `}
        <a href={href("/", { text: report.tag })}>All jobs of this rehearsal</a>
      </p>
    </div>
  );
}

function Hints({ report }: { report: Rehearsal }) {
  if (report.hints.length === 0) return null;
  return (
    <>
      <h2>What to change in the script</h2>
      <div class="scroll" tabIndex={0} role="region" aria-label="What to change in the script">
        <table class="plain">
          <thead><tr><th scope="col">Line</th><th scope="col">What</th><th scope="col">Change</th></tr></thead>
          <tbody>
            {report.hints.map((hint) => (
              <tr key={`${hint.where} ${hint.code}`}>
                <td class="machine">{hint.where}</td>
                <td><Coded text={hint.what} />{hint.is_observed && <span class="under muted">explains what was observed</span>}</td>
                <td><Coded text={hint.fix} /></td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </>
  );
}

/** A sentence, and what it has between backticks as code. */
const Coded = ({ text }: { text: string }) => <>{text.split("`").map((part, n) => (n % 2 ? <code key={n}>{part}</code> : part))}</>;

const COLUMNS = ["At step", "Resumed at", "Lost steps", "Next step", "Extra", "Restarts"];

function Runs({ report, job }: { report: Rehearsal; job: Job }) {
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Runs of the rehearsal">
      <table class="plain">
        <thead>
          <tr>
            <th scope="col">Fault</th><th scope="col">Hit</th><th scope="col">Equal</th>
            {COLUMNS.map((name) => <th key={name} scope="col" class="right">{name}</th>)}
            <th scope="col" class="right">Took</th><th scope="col">Job</th>
          </tr>
        </thead>
        <tbody>
          {report.unbroken.map((one) => (
            <tr key={one.job} class={one.job === job.name ? "selected" : ""}>
              <td>none</td><td class="muted">–</td><td class="muted">–</td>
              {COLUMNS.map((name) => <td key={name} class="right muted">–</td>)}
              <td class="right number">{one.seconds.toFixed(1)} s</td><td><a href={jobHref(one.job)}>{one.job}</a></td>
            </tr>
          ))}
          {report.runs.map((run) => <RunRow key={run.job} run={run} isOwn={run.job === job.name} />)}
        </tbody>
      </table>
    </div>
  );
}

function RunRow({ run, isOwn }: { run: RehearsalRun; isOwn: boolean }) {
  const { step, resumed, lost_steps, next_step_s, extra_s } = run.cost;
  return (
    <tr class={isOwn ? "selected" : ""}>
      <td>{run.fault}</td>
      <td>{run.target || "ended before"}</td>
      <td class={run.is_equal === false ? "tone-bad" : ""}>{run.is_equal === null ? "not judged" : run.is_equal ? "yes" : "✕ no"}</td>
      {[step, resumed, lost_steps].map((one, n) => <td key={n} class="right number">{one === null ? "–" : whole(one)}</td>)}
      {[next_step_s, extra_s].map((one, n) => <td key={n} class="right number">{one === null ? "–" : `${one.toFixed(1)} s`}</td>)}
      <td class="right number">{run.restarts}</td>
      <td class="right number">{run.seconds.toFixed(1)} s</td>
      <td><a href={jobHref(run.job)}>{run.job}</a></td>
    </tr>
  );
}

function Differences({ runs }: { runs: RehearsalRun[] }) {
  return (
    <>
      <h2>What differs from the unbroken job</h2>
      {runs.map((run) => (
        <details key={run.job} open={runs.length === 1}>
          <summary>{run.fault} of {run.target}: {whole(run.differences.length)}</summary>
          <ul class="problems">{run.differences.slice(0, 100).map((one) => <li key={one}>{one}</li>)}</ul>
        </details>
      ))}
    </>
  );
}
