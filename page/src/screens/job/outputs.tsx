/** Files of a job: browsed as folders, looked at, downloaded. What is in them is shown as text or image, never run. */

import { useEffect, useState } from "preact/hooks";
import { ApiError, fileAddress, getFile, segment } from "../../api";
import { counted, size } from "../../format";
import { useAnswer, useChange, useInterval } from "../../hooks";
import { ENDED } from "../../parts/job-state";
import { Answered, Nothing, Refused } from "../../parts/placeholders";
import { setQuery, usePlace } from "../../router";
import type { FileEntry, Job, StoryLine } from "../../types";

const MAX_TEXT = 256 << 10;
const MAX_IMAGE = 32 << 20;
const MAX_ROWS = 500;
const INTERVAL_MS = 5000;
const IMAGES: Record<string, string> = {
  png: "image/png", jpg: "image/jpeg", jpeg: "image/jpeg", gif: "image/gif", webp: "image/webp", svg: "image/svg+xml",
};

export function OutputsTab({ job }: { job: Job; story: StoryLine[] }) {
  const answer = useAnswer<FileEntry[]>(`/jobs/${segment(job.name)}/files`);
  useChange(job.state, answer.reload);
  useInterval(() => ENDED.has(job.state) || answer.reload(), INTERVAL_MS);
  return (
    <>
      {job.outputs.length > 0 && <Places job={job} />}
      <Answered answer={answer}>
        {(files) => (files.length ? <Browser job={job} files={files} /> : <Nothing>There is no file yet.</Nothing>)}
      </Answered>
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

function Browser({ job, files }: { job: Job; files: FileEntry[] }) {
  const { query } = usePlace();
  const chosen = files.find((file) => file.path === query.get("file"));
  const first = firstFolder(files);
  const folder = query.get("folder") ?? (chosen ? chosen.path.split("/").slice(0, -1).join("/") : first);
  return (
    <div class="browser">
      <section aria-label="Files">
        <Trail folder={folder} />
        <FolderTable job={job} files={files} folder={folder} chosen={chosen?.path} />
      </section>
      <section aria-label="Preview" class="preview">
        {chosen ? <Preview key={chosen.path} job={job} file={chosen} /> : <Nothing>Choose a file to look at it.</Nothing>}
      </section>
    </div>
  );
}

/** The outputs, or the first folder below them that holds more than one folder. */
function firstFolder(files: FileEntry[]): string {
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

function FolderTable({ job, files, folder, chosen }: { job: Job; files: FileEntry[]; folder: string; chosen: string | undefined }) {
  const prefix = folder === ROOT || folder === "" ? "" : `${folder}/`;
  const within = files.filter((file) => file.path.startsWith(prefix));
  const folders = new Map<string, { size: number; files: number }>();
  const direct: FileEntry[] = [];
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
                <td><button type="button" class="as-link" onClick={() => setQuery({ file: file.path, folder: folder || ROOT }, false)}>{name}</button></td>
                <td class="right number muted">{size(file.size)}</td>
                <td class="right"><a href={fileAddress(job.name, file.path)} download={name} aria-label={`Download ${name}`}>Download</a></td>
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

type Seen = { kind: "image"; url: string } | { kind: "text"; text: string; isCut: boolean } | { kind: "binary" };

/** A file that grows is read again, and what was read of it before stays until then. */
function Preview({ job, file }: { job: Job; file: FileEntry }) {
  const [seen, setSeen] = useState<Seen>();
  const [error, setError] = useState<ApiError>();
  const ending = file.path.split(".").at(-1)?.toLowerCase() ?? "";
  useEffect(() => {
    let isOpen = true;
    let url = "";
    look(job.name, file, ending).then((one) => {
      if (one.kind === "image") url = one.url;
      if (!isOpen) return URL.revokeObjectURL(url);
      setSeen(one);
      setError(undefined);
    }, (refusal) => isOpen && setError(refusal));
    return () => {
      isOpen = false;
      URL.revokeObjectURL(url);
    };
  }, [file.size]);
  const name = file.path.split("/").at(-1)!;
  return (
    <>
      <header class="section-head">
        <h2 class="machine">{name}</h2>
        <span class="muted">{size(file.size)}</span>
        <a class="button" href={fileAddress(job.name, file.path)} download={name}>Download</a>
      </header>
      {error && <Refused error={error} />}
      {!seen && !error && <p class="nothing loading">Loading…</p>}
      {seen?.kind === "image" && <img src={seen.url} alt={`The file ${name}`} />}
      {seen?.kind === "binary" && <Nothing>It is binary: download it to look at it.</Nothing>}
      {seen?.kind === "text" && <TextPreview text={seen.text} isCut={seen.isCut} ending={ending} />}
    </>
  );
}

async function look(job: string, file: FileEntry, ending: string): Promise<Seen> {
  if (file.size === 0) return { kind: "text", text: "", isCut: false };
  const type = IMAGES[ending];
  if (type && file.size <= MAX_IMAGE) {
    const { bytes } = await getFile(job, file.path, MAX_IMAGE);
    return { kind: "image", url: URL.createObjectURL(new Blob([bytes], { type })) };
  }
  const { bytes, size: whole } = await getFile(job, file.path, MAX_TEXT);
  const text = new TextDecoder().decode(bytes);
  if (text.includes("\u0000")) return { kind: "binary" };
  return { kind: "text", text, isCut: whole > bytes.byteLength };
}

function TextPreview({ text, isCut, ending }: { text: string; isCut: boolean; ending: string }) {
  const rows = ending === "csv" || ending === "tsv" ? tableOf(text, ending === "csv" ? "," : "\t", isCut) : undefined;
  return (
    <>
      {rows ? <Rows rows={rows} /> : <pre class="machine block" tabIndex={0}>{ending === "json" && !isCut ? pretty(text) : text}</pre>}
      {text === "" && <Nothing>It is empty.</Nothing>}
      {isCut && <p class="muted">Only the first {size(MAX_TEXT)} are shown.</p>}
    </>
  );
}

function pretty(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

/** Rows of a table of values, quoted ones included; the last, which may be cut, is left out then. */
export function tableOf(text: string, separator: string, isCut: boolean): string[][] {
  const rows: string[][] = [[]];
  let [field, isQuoted] = ["", false];
  const endField = () => {
    rows.at(-1)!.push(field);
    field = "";
  };
  for (let n = 0; n < text.length; n += 1) {
    const character = text[n]!;
    if (isQuoted) {
      if (character === '"' && text[n + 1] === '"') field += text[(n += 1)];
      else if (character === '"') isQuoted = false;
      else field += character;
    } else if (character === '"' && field === "") isQuoted = true;
    else if (character === separator) endField();
    else if (character === "\n") {
      endField();
      rows.push([]);
    } else if (character !== "\r") field += character;
  }
  if (field || rows.at(-1)!.length) endField();
  else rows.pop();
  return isCut ? rows.slice(0, -1) : rows;
}

function Rows({ rows }: { rows: string[][] }) {
  const [head, ...rest] = rows;
  return (
    <div class="scroll" tabIndex={0}>
      <table class="plain">
        <thead><tr>{head?.map((cell, n) => <th key={n} scope="col">{cell}</th>)}</tr></thead>
        <tbody>{rest.slice(0, MAX_ROWS).map((row, n) => <tr key={n}>{row.map((cell, m) => <td key={m} class="number">{cell}</td>)}</tr>)}</tbody>
      </table>
      {rest.length > MAX_ROWS && <p class="muted">The first {MAX_ROWS} of {counted(rest.length, "row")}.</p>}
    </div>
  );
}
