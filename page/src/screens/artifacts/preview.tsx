/** One file, looked at: what is in it is shown as text, table, image, sound or film, and never run. */

import { useEffect, useState } from "preact/hooks";
import { ApiError, fileAddress, getFile } from "../../api";
import { counted, size as sizeOf, whole } from "../../format";
import { Markdown } from "../../parts/note";
import { Nothing, Refused } from "../../parts/placeholders";
import type { FileEntry } from "../../types";
import { DataTable } from "./data-table";
import { Pdf } from "./pdf";
import { MAX_TABLE, separated, tableInJson, type TableData } from "./table-data";
import { countOf, TENSOR_FILES, type Tensor } from "./tensor-files";

const MAX_TEXT = 256 << 10;
const MAX_IMAGE = 32 << 20;
const MAX_FILM = 64 << 20;
const MAX_HTML = 8 << 20;
const MAX_PDF = 32 << 20;
const BLOBS: Record<string, [kind: "image" | "audio" | "video", type: string]> = {
  png: ["image", "image/png"], jpg: ["image", "image/jpeg"], jpeg: ["image", "image/jpeg"], gif: ["image", "image/gif"],
  webp: ["image", "image/webp"], svg: ["image", "image/svg+xml"],
  wav: ["audio", "audio/wav"], mp3: ["audio", "audio/mpeg"], ogg: ["audio", "audio/ogg"], flac: ["audio", "audio/flac"], m4a: ["audio", "audio/mp4"],
  mp4: ["video", "video/mp4"], webm: ["video", "video/webm"],
};

type Seen =
  | { kind: "image" | "audio" | "video"; url: string }
  | { kind: "table"; data: TableData }
  | { kind: "tensors"; tensors: Tensor[] }
  | { kind: "pdf"; bytes: ArrayBuffer }
  | { kind: "html" | "binary" }
  | { kind: "large"; most: number }
  | { kind: "text" | "markdown"; text: string; isCut: boolean };

/** A file that grows is read again, and what was read of it before stays until then. */
export function Preview({ job, file }: { job: string; file: FileEntry }) {
  const [seen, setSeen] = useState<Seen>();
  const [error, setError] = useState<ApiError>();
  useEffect(() => {
    let isOpen = true;
    let url = "";
    look(job, file).then((one) => {
      if ("url" in one) url = one.url;
      if (!isOpen) return URL.revokeObjectURL(url);
      setSeen(one);
      setError(undefined);
    }, (problem) => isOpen && setError(problem instanceof ApiError ? problem : new ApiError(0, `the file can't be shown: ${problem.message}`, file.path, "Download it to look at it.")));
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
        <span class="muted">{sizeOf(file.size)}</span>
        <a class="button" href={fileAddress(job, file.path)} download={name}>Download</a>
      </header>
      {error && <Refused error={error} />}
      {!seen && !error && <p class="nothing loading">Loading…</p>}
      {seen && <Shown seen={seen} name={name} address={fileAddress(job, file.path)} />}
    </>
  );
}

function Shown({ seen, name, address }: { seen: Seen; name: string; address: string }) {
  switch (seen.kind) {
    case "image": return <img src={seen.url} alt={`The file ${name}`} />;
    case "audio": return <audio controls src={seen.url} aria-label={name} />;
    case "video": return <video controls src={seen.url} aria-label={name} />;
    case "table": return <DataTable data={seen.data} label={name} />;
    case "tensors": return <Tensors tensors={seen.tensors} name={name} />;
    // The server's answer forbids scripts and requests, and so does the frame.
    case "html": return <iframe class="preview-html" sandbox="" src={`${address}?preview=html`} title={name} />;
    case "pdf": return <Pdf bytes={seen.bytes} name={name} />;
    case "binary": return <Nothing>It is binary: download it to look at it.</Nothing>;
    case "large": return <Nothing>The page shows such files of at most {sizeOf(seen.most)}: download it to look at it.</Nothing>;
    default: return <TextPreview {...seen} />;
  }
}

async function look(job: string, file: FileEntry): Promise<Seen> {
  const ending = file.path.split(".").at(-1)?.toLowerCase() ?? "";
  if (file.size === 0) return { kind: "text", text: "", isCut: false };
  const [kind, type] = BLOBS[ending] ?? [];
  if (kind && type) {
    const most = kind === "image" ? MAX_IMAGE : MAX_FILM;
    if (file.size > most) return { kind: "large", most };
    const { bytes } = await getFile(job, file.path, most);
    return { kind, url: URL.createObjectURL(new Blob([bytes], { type })) };
  }
  if (ending === "pdf") {
    if (file.size > MAX_PDF) return { kind: "large", most: MAX_PDF };
    return { kind: "pdf", bytes: (await getFile(job, file.path, MAX_PDF)).bytes };
  }
  if (ending === "html" || ending === "htm") return file.size > MAX_HTML ? { kind: "large", most: MAX_HTML } : { kind: "html" };
  const tensors = TENSOR_FILES[ending];
  if (tensors) return { kind: "tensors", tensors: await tensors(async (from, length) => new DataView((await getFile(job, file.path, length, from)).bytes), file.size) };
  if (ending === "csv" || ending === "tsv" || ending === "parquet") {
    if (file.size > MAX_TABLE) return { kind: "large", most: MAX_TABLE };
    const { bytes } = await getFile(job, file.path, MAX_TABLE);
    if (ending === "parquet") return { kind: "table", data: await (await import("./parquet")).parquetTable(bytes) };
    return { kind: "table", data: await separated(new TextDecoder().decode(bytes), ending === "csv" ? "," : "\t") };
  }
  return textOf(job, file, ending);
}

async function textOf(job: string, file: FileEntry, ending: string): Promise<Seen> {
  const most = ending === "json" && file.size <= MAX_TABLE ? MAX_TABLE : MAX_TEXT;
  const { bytes, size: whole } = await getFile(job, file.path, most);
  const text = new TextDecoder().decode(bytes);
  if (text.includes("\u0000")) return { kind: "binary" };
  const isCut = whole > bytes.byteLength;
  if (ending === "json" && !isCut) {
    const value = parsed(text);
    const data = tableInJson(value);
    if (data) return { kind: "table", data };
    const pretty = value === undefined ? text : JSON.stringify(value, null, 2);
    return { kind: "text", text: pretty.slice(0, MAX_TEXT), isCut: pretty.length > MAX_TEXT };
  }
  return { kind: ending === "md" || ending === "markdown" ? "markdown" : "text", text, isCut };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function TextPreview({ kind, text, isCut }: { kind: "text" | "markdown"; text: string; isCut: boolean }) {
  return (
    <>
      {kind === "markdown" ? <div class="preview-markdown" tabIndex={0}><Markdown text={text} /></div> : <pre class="machine block" tabIndex={0}>{text}</pre>}
      {text === "" && <Nothing>It is empty.</Nothing>}
      {isCut && <p class="muted">Only the first {sizeOf(MAX_TEXT)} are shown.</p>}
    </>
  );
}

function Tensors({ tensors, name }: { tensors: Tensor[]; name: string }) {
  const data: TableData = { columns: ["tensor", "type", "shape"], rows: tensors.map((one) => [one.name, one.type, one.shape.join(" × ") || "one number"]), note: `${whole(countOf(tensors))} numbers` };
  return <><p class="muted">{counted(tensors.length, "tensor")}, by its header</p><DataTable data={data} label={name} /></>;
}
