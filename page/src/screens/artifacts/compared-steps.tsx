/** What several jobs have logged by step, side by side. */

import { useMemo } from "preact/hooks";
import { get, segment } from "../../api";
import { counted } from "../../format";
import { useReading } from "../../hooks";
import { Answered, Nothing } from "../../parts/placeholders";
import type { FileEntry } from "../../types";
import { StepGallery, type Source } from "./gallery";
import { isStepFile } from "./step-files";

const MAX_JOBS = 8;

export function ComparedSteps({ jobs }: { jobs: string[] }) {
  const shown = jobs.slice(0, MAX_JOBS);
  const answer = useReading<Source[]>(JSON.stringify(shown), (signal) => Promise.all(shown.map(async (job) => {
    const files = await get<FileEntry[]>(`/jobs/${segment(job)}/files`, {}, signal);
    return { job, files: files.filter((one) => isStepFile(one.path)) };
  })));
  const hasAny = useMemo(() => answer.value?.some((one) => one.files.length > 0), [answer.value]);
  return (
    <Answered answer={answer}>
      {(sources) => hasAny ? (
        <>
          {jobs.length > MAX_JOBS && <p class="muted">The first {MAX_JOBS} of {counted(jobs.length, "job")}.</p>}
          <StepGallery sources={sources} label="Logged by step" />
        </>
      ) : <Nothing>None of these jobs has logged images, tables, histograms or texts.</Nothing>}
    </Answered>
  );
}
