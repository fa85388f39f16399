/** What a person does with jobs: cancel, archive, restore, delete, compare. */

import { useState } from "preact/hooks";
import { act, segment } from "../../api";
import { counted } from "../../format";
import { useMayAct } from "../../hooks";
import { Confirm } from "../../parts/dialog";
import { ENDED } from "../../parts/job-state";
import { href } from "../../router";
import type { Job } from "../../types";

type Action = "cancel" | "archive" | "restore" | "delete";

const TITLES: Record<Action, string> = { cancel: "Cancel", archive: "Archive", restore: "Restore", delete: "Delete" };
const EFFECTS: Record<Action, string> = {
  cancel: "Their ranks get SIGTERM, and SIGKILL after the job's grace time. Outputs written so far are kept.",
  archive: "They are hidden from lists; nothing is deleted.",
  restore: "They are shown in lists again.",
  delete: "Their logs, outputs and checkpoints are deleted. This can't be undone.",
};

const done = (action: Action, job: Job): Promise<unknown> =>
  action === "delete"
    ? act("DELETE", `/jobs/${segment(job.name)}`)
    : act("POST", `/jobs/${segment(job.name)}/${action}`);

export function possible(action: Action, job: Job): boolean {
  if (action === "cancel") return !ENDED.has(job.state);
  if (action === "delete") return ENDED.has(job.state);
  return action === "archive" ? !job.archived : job.archived;
}

export function ActionButtons({ jobs, onDone }: { jobs: Job[]; onDone: (action: Action) => void }) {
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
      {asked && (
        <Confirm
          title={`${TITLES[asked]} ${fitting.length === 1 ? fitting[0]?.name : counted(fitting.length, "job")}?`}
          text={<p>{fitting.length === 1 ? EFFECTS[asked].replace(/^Their/, "Its").replace(/^They are/, "It is") : EFFECTS[asked]}</p>}
          verb={TITLES[asked]} isGrave={asked === "delete" || asked === "cancel"}
          action={async () => {
            for (const job of fitting) await done(asked, job);
            onDone(asked);
          }}
          onClose={() => setAsked(undefined)} />
      )}
    </>
  );
}

export function SelectionBar({ jobs, clear, done }: { jobs: Job[]; clear: () => void; done: () => void }) {
  return (
    <div class="selection" role="region" aria-label="Selected jobs">
      <span>{counted(jobs.length, "job")} selected</span>
      {jobs.length > 1 && jobs.length <= 20 && (
        <a class="button main" href={href("/compare", { job: jobs.map((job) => job.name) })}>Compare</a>
      )}
      <ActionButtons jobs={jobs} onDone={() => {
        clear();
        done();
      }} />
      <button type="button" class="quiet" onClick={clear}>Clear</button>
    </div>
  );
}
