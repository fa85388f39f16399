/** What a person does with jobs: cancel, archive, restore, delete, compare. */

import { useState } from "preact/hooks";
import { act, ApiError, segment } from "../../api";
import { counted } from "../../format";
import { useMayAct } from "../../hooks";
import { Confirm, Dialog } from "../../parts/dialog";
import { ENDED } from "../../parts/job-state";
import { Refused } from "../../parts/placeholders";
import { href } from "../../router";
import { MAX_COMPARED } from "../compare-requests";
import { DeletionDialog } from "./deletion";
import { changeJob } from "./labels";
import type { Job } from "../../types";

/** What actions need of a job. */
export type Acted = Pick<Job, "name" | "state" | "archived" | "type">;

type Action = "cancel" | "archive" | "restore" | "delete";

const TITLES: Record<Action, string> = { cancel: "Cancel", archive: "Archive", restore: "Restore", delete: "Delete" };
const PAST: Record<Action, string> = { cancel: "canceled", archive: "archived", restore: "restored", delete: "deleted" };
const EFFECTS: Record<Exclude<Action, "delete">, string> = {
  cancel: "Their ranks get SIGTERM, and SIGKILL after the job's grace time. Outputs written so far are kept.",
  archive: "They are hidden from lists; nothing is deleted.",
  restore: "They are shown in lists again.",
};

const done = (action: Action, job: Acted): Promise<unknown> =>
  action === "delete"
    ? act("DELETE", `/jobs/${segment(job.name)}`)
    : act("POST", `/jobs/${segment(job.name)}/${action}`);

/** Does something to each of the jobs, also where one is refused. Throws what was refused, and why. */
async function doneToAll(jobs: Acted[], past: string, doIt: (job: Acted) => Promise<unknown>): Promise<void> {
  const refusals: { job: Acted; error: ApiError }[] = [];
  for (const job of jobs) {
    await doIt(job).catch((error) => refusals.push({ job, error: error instanceof ApiError ? error : new ApiError(0, String(error)) }));
  }
  if (jobs.length === 1 && refusals[0]) throw refusals[0].error;
  if (!refusals.length) return;
  const what = `${refusals.length} of ${counted(jobs.length, "job")} ${refusals.length === 1 ? "was" : "were"} not ${past}`;
  throw new ApiError(0, what, "", "", refusals.map(({ job, error }) => `${job.name}: ${error.what}${error.fix && `. ${error.fix}`}`));
}

export function possible(action: Action, job: Acted): boolean {
  if (action === "cancel") return !ENDED.has(job.state);
  if (action === "restore") return job.archived;
  return ENDED.has(job.state) && (action === "delete" || !job.archived);
}

/** onRefused: called where the server has refused it for some of the jobs; it may have done it to the others. */
export function ActionButtons({ jobs, onDone, onRefused }: {
  jobs: Acted[]; onDone: (action: Action) => void; onRefused: () => void;
}) {
  const [asked, setAsked] = useState<Action>();
  const mayAct = useMayAct();
  const fitting = asked ? jobs.filter((job) => possible(asked, job)) : [];
  return (
    <>
      {(["cancel", "archive", "restore", "delete"] as Action[])
        .filter((action) => mayAct && jobs.some((job) => possible(action, job)))
        .map((action) => (
          <button type="button" key={action} onClick={() => setAsked(action)}>{TITLES[action]}</button>
        ))}
      {asked === "delete" && (
        <DeletionDialog jobs={fitting} onClose={() => setAsked(undefined)}
          action={() => doneToAll(fitting, PAST[asked], (job) => done(asked, job)).then(() => onDone(asked), (refusal) => {
            onRefused();
            throw refusal;
          })} />
      )}
      {asked && asked !== "delete" && (
        <Confirm
          title={`${TITLES[asked]} ${fitting.length === 1 ? fitting[0]?.name : counted(fitting.length, "job")}?`}
          text={<p>{fitting.length === 1 ? EFFECTS[asked].replace(/^Their/, "Its").replace(/^They are/, "It is") : EFFECTS[asked]}</p>}
          verb={TITLES[asked]} isGrave={asked === "cancel"}
          action={() => doneToAll(fitting, PAST[asked], (job) => done(asked, job)).then(() => onDone(asked), (refusal) => {
            onRefused();
            throw refusal;
          })}
          onClose={() => setAsked(undefined)} />
      )}
    </>
  );
}

/** Sets or removes a tag of all jobs that are selected. */
function TagButton({ jobs, done }: { jobs: Acted[]; done: () => void }) {
  const mayAct = useMayAct();
  const [isOpen, setOpen] = useState(false);
  const [tag, setTag] = useState({ key: "", value: "" });
  const [error, setError] = useState<ApiError>();
  if (!mayAct) return null;
  const change = (value: string | null) => {
    setError(undefined);
    doneToAll(jobs, "tagged", (job) => changeJob(job.name, { tags: { [tag.key.trim()]: value } }))
      .then(() => setOpen(false), setError).finally(done);
  };
  return (
    <>
      <button type="button" onClick={() => setOpen(true)}>Tag</button>
      {isOpen && (
        <Dialog title={`Tag ${jobs.length === 1 ? jobs[0]!.name : counted(jobs.length, "job")}`} onClose={() => setOpen(false)}>
          <form onSubmit={(event) => {
            event.preventDefault();
            change(tag.value.trim());
          }}>
            <div class="inline-form">
              <input aria-label="Name of the tag" placeholder="name" maxLength={250} required value={tag.key} onInput={(event) => setTag({ ...tag, key: event.currentTarget.value })} />
              <input aria-label="Value of the tag" placeholder="value" maxLength={8000} value={tag.value} onInput={(event) => setTag({ ...tag, value: event.currentTarget.value })} />
            </div>
            {error && <Refused error={error} />}
            <div class="buttons">
              <button type="button" onClick={() => setOpen(false)}>Back</button>
              <button type="button" disabled={!tag.key.trim()} onClick={() => change(null)}>Remove this tag</button>
              <button type="submit" class="main">Set</button>
            </div>
          </form>
        </Dialog>
      )}
    </>
  );
}

export function SelectionBar({ jobs, clear, done }: { jobs: Acted[]; clear: () => void; done: () => void }) {
  return (
    <div class="selection" role="region" aria-label="Selected jobs">
      <span>{counted(jobs.length, "job")} selected</span>
      {jobs.length > MAX_COMPARED && <span class="muted">Compare takes at most {MAX_COMPARED}</span>}
      {jobs.length > 1 && jobs.length <= MAX_COMPARED && (
        <a class="button main" href={href("/compare", { job: jobs.map((job) => job.name) })}>Compare</a>
      )}
      <TagButton jobs={jobs} done={done} />
      <ActionButtons jobs={jobs} onDone={() => {
        clear();
        done();
      }} onRefused={done} />
      <button type="button" class="quiet" onClick={clear}>Clear</button>
    </div>
  );
}
