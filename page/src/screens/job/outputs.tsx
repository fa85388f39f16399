/** What a job has left: what it logged by step, and its files, browsed as folders, looked at, downloaded. */

import { useMemo } from "preact/hooks";
import { fileAddress, segment } from "../../api";
import { counted, size } from "../../format";
import { useAnswer, useChange, useInterval } from "../../hooks";
import { ENDED } from "../../parts/job-state";
import { Answered, Nothing } from "../../parts/placeholders";
import { setQuery, usePlace } from "../../router";
import type { FileEntry, Job, StoryLine } from "../../types";
import { StepGallery } from "../artifacts/gallery";
import { isStepFile } from "../artifacts/step-files";
import { Preview } from "../artifacts/preview";
import { treeOf, type TreeFile } from "../artifacts/file-tree";

const MAX_ROWS = 500;
const INTERVAL_MS = 5000;
export function OutputsTab({ job }: { job: Job; story: StoryLine[] }) {
  const answer = useAnswer<FileEntry[]>(`/jobs/${segment(job.name)}/files`);
  useChange(job.state, answer.reload);
  useInterval(() => ENDED.has(job.state) || answer.reload(), INTERVAL_MS);
  return (
    <>
      {job.outputs.length > 0 && <Places job={job} />}
      <Answered answer={answer}>
        {(files) => (files.length ? <Files job={job} files={files} /> : <Nothing>There is no file yet.</Nothing>)}
      </Answered>
    </>
  );
}

function Files({ job, files }: { job: Job; files: FileEntry[] }) {
  const key = files.map((one) => `${one.path} ${one.size}`).join("\n");
  const sources = useMemo(() => [{ job: job.name, files: files.filter((one) => isStepFile(one.path)) }], [key]);
  const tree = useMemo(() => treeOf(files), [key]);
  return (
    <>
      {sources[0]!.files.length > 0 && <StepGallery sources={sources} label="Logged by step" />}
      <Browser job={job} files={tree} />
    </>
  );
}

/** Outputs that go into a store, or get a name: where the model is. */
function Places({ job }: { job: Job }) {
  return (
    <table class="plain">
      <thead><tr><th scope="col">Output</th><th scope="col">Where</th><th scope="col">Known as</th><th scope="col" class="right">Size</th></tr></thead>
      <tbody>
        {job.outputs.map((one) => (
          <tr key={one.name}>
            <td>{one.name}</td>
            <td class="machine">{one.problem || one.uri || (one.place === "in_place" ? `outputs/${one.name}` : one.place.replace("_", " "))}</td>
            <td class="machine">{one.asset || "–"}</td>
            <td class="right number">{one.files ? `${size(one.size)} in ${counted(one.files, "file")}` : "–"}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Browser({ job, files }: { job: Job; files: TreeFile[] }) {
  const { query } = usePlace();
  const chosen = files.find((file) => file.file.path === query.get("file"));
  const first = firstFolder(files);
  const folder = query.get("folder") ?? (chosen ? chosen.path.split("/").slice(0, -1).join("/") : first);
  return (
    <div class="browser">
      <section aria-label="Files">
        <Trail folder={folder} />
        <FolderTable job={job} files={files} folder={folder} chosen={chosen?.path} />
      </section>
      <section aria-label="Preview" class="preview">
        {chosen ? <Preview key={chosen.path} job={job.name} file={chosen.file} /> : <Nothing>Choose a file to look at it.</Nothing>}
      </section>
    </div>
  );
}

/** The outputs, or the first folder below them that holds more than one folder. */
function firstFolder(files: TreeFile[]): string {
  let folder = "outputs";
  for (;;) {
    const inside = files.filter((file) => file.path.startsWith(`${folder}/`)).map((file) => file.path.slice(folder.length + 1).split("/"));
    const names = new Set(inside.map((parts) => parts[0]));
    if (inside.length === 0) return ROOT;
    if (names.size !== 1 || inside.some((parts) => parts.length === 1)) return folder;
    folder = `${folder}/${[...names][0]}`;
  }
}

const ROOT = "/";

function Trail({ folder }: { folder: string }) {
  const parts = folder === ROOT || folder === "" ? [] : folder.split("/");
  return (
    <p class="trail">
      <button type="button" class="quiet" onClick={() => setQuery({ folder: ROOT, file: "" })}>all files</button>
      {parts.map((part, n) => (
        <span key={n}> / <button type="button" class="quiet" onClick={() => setQuery({ folder: parts.slice(0, n + 1).join("/"), file: "" })}>{part}</button></span>
      ))}
    </p>
  );
}

function FolderTable({ job, files, folder, chosen }: { job: Job; files: TreeFile[]; folder: string; chosen: string | undefined }) {
  const prefix = folder === ROOT || folder === "" ? "" : `${folder}/`;
  const within = files.filter((file) => file.path.startsWith(prefix));
  const folders = new Map<string, { size: number; files: number }>();
  const direct: TreeFile[] = [];
  for (const file of within) {
    const rest = file.path.slice(prefix.length);
    const slash = rest.indexOf("/");
    if (slash < 0) direct.push(file);
    else {
      const name = rest.slice(0, slash);
      const sum = folders.get(name) ?? { size: 0, files: 0 };
      folders.set(name, { size: sum.size + file.size, files: sum.files + 1 });
    }
  }
  return (
    <>
      <table class="plain files">
        <thead class="hidden"><tr><th>Name</th><th>Size</th><th>Download</th></tr></thead>
        <tbody>
          {[...folders].map(([name, sum]) => (
            <tr key={name}>
              <td><button type="button" class="as-link" onClick={() => setQuery({ folder: prefix + name, file: "" }, false)}>{name}/</button></td>
              <td class="right number muted">{size(sum.size)}</td>
              <td class="right muted">{counted(sum.files, "file")}</td>
            </tr>
          ))}
          {direct.slice(0, MAX_ROWS).map((file) => {
            const name = file.path.slice(prefix.length);
            return (
              <tr key={file.path} class={file.path === chosen ? "selected" : ""}>
                <td><button type="button" class="as-link" onClick={() => setQuery({ file: file.file.path, folder: folder || ROOT }, false)}>{name}</button></td>
                <td class="right number muted">{size(file.size)}</td>
                <td class="right"><a href={fileAddress(job.name, file.file.path)} download={name} aria-label={`Download ${name}`}>Download</a></td>
              </tr>
            );
          })}
        </tbody>
      </table>
      {direct.length > MAX_ROWS && (
        <p class="muted">The first {MAX_ROWS} of {counted(direct.length, "file")}; <code>drumbeat download {job.name}</code> brings all of them.</p>
      )}
    </>
  );
}
