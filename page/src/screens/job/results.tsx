/** What a completed job has made: each model or data asset by its name, with its size, and how to get it. */

import { fileAddress, segment } from "../../api";
import { counted, size } from "../../format";
import { useAnswer } from "../../hooks";
import { CopyButton } from "../../parts/copy-button";
import { StateIcon } from "../../parts/job-state";
import { href, jobHref } from "../../router";
import type { FileEntry, Job, Output } from "../../types";

/** The outputs that have a name and a version. */
export const assetsOf = (job: Pick<Job, "outputs">): Output[] => job.outputs.filter((one) => one.asset && one.place === "in_place");

export const isModel = (one: Output): boolean => (one.type ?? "").endsWith("_model");

/** Whether a file of the job is the output, as that of a `uri_file` is, or lies in its folder. */
const isOf = (one: Output, path: string): boolean => path === `outputs/${one.name}` || path.startsWith(`outputs/${one.name}/`);

/** The command that brings an output here: from the job's folder, or from the store that it lies in. */
export function downloadCommand(job: string, one: Output): string {
  return one.uri ? `drumbeat data download ${one.uri} ${one.name}` : `drumbeat download ${job} --outputs ${one.name}`;
}

export function Results({ job }: { job: Job }) {
  const own = assetsOf(job);
  const hasSingle = own.some((one) => one.files === 1 && !one.uri);
  const files = useAnswer<FileEntry[]>(hasSingle ? `/jobs/${segment(job.name)}/files` : undefined, {}, true);
  return (
    <ul class="results">
      {own.map((one) => {
        const path = one.files === 1 && !one.uri ? files.value?.find((file) => isOf(one, file.path))?.path : undefined;
        return (
          <li key={one.name}>
            <p class="cause-sentence">
              <StateIcon state="completed" /> {isModel(one) ? "Model" : "Output"}{" "}
              <a href={href("/data", { ...(isModel(one) ? { tab: "models" } : {}), name: one.asset.split(":")[0] })}>{one.asset}</a>
              <span class="result-size">{size(one.size)} in {counted(one.files, "file")}</span>
            </p>
            <div class="buttons">
              {path
                ? <a class="button" href={fileAddress(job.name, path)} download={path.split("/").at(-1)}>Download {path.split("/").at(-1)}</a>
                : <a class="button" href={jobHref(job.name, { tab: "outputs" })}>Files</a>}
              <code>{downloadCommand(job.name, one)}</code>
              <CopyButton text={downloadCommand(job.name, one)} />
            </div>
          </li>
        );
      })}
    </ul>
  );
}
