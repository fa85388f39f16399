/** The box with what matters now: why it failed and what to do, what it waits for, how far it is, or what came of it. */

import { useMemo } from "preact/hooks";
import { ENDED, StateIcon, tone, WAITING } from "../../parts/job-state";
import { jobHref, setQuery } from "../../router";
import { Linked } from "../../parts/job-links";
import type { Job, StoryLine, Verdict } from "../../types";
import { endOf } from "./log-lines";
import { headlineOf, notFiniteOf } from "./progress";
import { hangOf } from "./hang-and-start";
import { End, Wait } from "./holders";
import { Results } from "./results";
import { StacksNow } from "./stacks-now";

export function Cause({ job, story }: { job: Job; story: StoryLine[] }) {
  if (job.verdict && job.state === "failed") return <Failed job={job} verdict={job.verdict} />;
  const last = job.failures.at(-1);
  const hang = hangOf(job, story);
  if (hang) return <Hung job={job} sentence={hang.sentence} file={hang.file} />;
  const hasResults = job.state === "completed" && job.outputs.some((one) => one.asset && one.place === "in_place");
  return (
    // While it trains, the sentence has a new number each second: nobody wants to hear them all.
    <div class={`cause tone-${tone(job.state)}`} role={job.state === "running" ? undefined : "status"}>
      {hasResults
        ? <Results job={job} />
        : <p class="cause-sentence"><StateIcon state={job.state} /> <Linked sentence={headlineOf(job)} /></p>}
      {hasResults && <p class="muted">{headlineOf(job)}</p>}
      {job.state === "queued" && <Wait job={job} />}
      {job.state === "running" && job.type === "command" && <End job={job} />}
      {job.not_finite && <p class="not-finite">{notFiniteOf(job.not_finite)}</p>}
      {job.notice && <p class="muted">{job.notice}</p>}
      {job.observed && WAITING.has(job.state) && <p class="muted">The engine says: {job.observed.word}</p>}
      {last && !ENDED.has(job.state) && <p class="muted">Before: {last.verdict.sentence}</p>}
    </div>
  );
}

function Hung({ job, sentence, file }: { job: Job; sentence: string; file: string }) {
  return (
    <div class="cause tone-wait" role="status">
      <p class="cause-sentence"><StateIcon state="hanging" /> {sentence}</p>
      <p class="cause-advice">
        {file && <><a href={jobHref(job.name, { tab: "outputs", file })}>The stacks of all ranks</a>; </>}
        <code>drumbeat stacks {job.name}</code> shows what they do now.
      </p>
      <StacksNow job={job.name} />
    </div>
  );
}

function Failed({ job, verdict }: { job: Job; verdict: Verdict }) {
  const hasRank = verdict.rank !== null && job.type === "command";
  const tail = useMemo(() => endOf(verdict.tail), [verdict.tail]);
  return (
    <div class="cause tone-bad" role="status">
      <p class="cause-sentence"><StateIcon state="failed" /> {verdict.sentence}</p>
      {verdict.aftermath && <p class="cause-others">{verdict.aftermath}</p>}
      {verdict.advice && <p class="cause-advice">{verdict.advice}</p>}
      {verdict.tail && (
        <details open>
          <summary>The last lines{hasRank ? ` of rank ${verdict.rank}` : ""}</summary>
          <pre class="machine tail" tabIndex={0}>{tail}</pre>
        </details>
      )}
      {hasRank && (
        <div class="buttons">
          <button type="button" onClick={() => setQuery({ tab: "logs", rank: String(verdict.rank), at: "failure", search: "" }, false)}>
            Go to the failing line of rank {verdict.rank}
          </button>
        </div>
      )}
    </div>
  );
}
