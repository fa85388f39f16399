/**
 * The page's server as a test writes it: the page as it is built from the sources, answers of the API by their paths, held or
 * broken off where the test says so, and the page's streams of events.
 */

import { createHash } from "node:crypto";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { delimiter, extname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "vite";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const API = "/api/v1";
const DOCS = "/ui/docs-files/";
const TYPES = { ".html": "text/html; charset=utf-8", ".js": "text/javascript", ".svg": "image/svg+xml", ".css": "text/css", ".png": "image/png" };
const CHROMIUMS = ["chromium", "chromium-browser", "google-chrome"];

/** Chromium's path; undefined where it is missing. */
export const chromium = (process.env.PATH ?? "").split(delimiter)
  .flatMap((folder) => CHROMIUMS.map((name) => join(folder, name))).find((path) => existsSync(path));

/** Builds the page into a folder of its own; returns the folder and what removes it. */
export async function builtPage() {
  const folder = mkdtempSync(join(tmpdir(), "drumbeat-page-"));
  await build({ root: ROOT, logLevel: "error", build: { outDir: folder, emptyOutDir: true } });
  return { folder, remove: () => rmSync(folder, { recursive: true, force: true }) };
}

/** An answer that isn't given before `give` is called. */
export function held(value) {
  let give;
  const answer = new Promise((resolve) => (give = () => resolve(value)));
  return { answer, give };
}

export const refusal = (status, what) => ({ refused: status, what });

async function contentOf(request) {
  let text = "";
  for await (const piece of request) text += piece;
  return text && JSON.parse(text);
}

export class ScriptedServer {
  /** By the path below the API, an answer, or what gives it from the query, the request and its content; `refusal` refuses, "break" closes the connection. */
  answers = {};
  /** Addresses that were asked for, without their root. */
  asked = [];
  /** The same of actions, with their methods. */
  acted = [];
  /** Whether every connection is closed at once, as of a server that is restarted. */
  isDown = false;
  streams = new Set();

  constructor(folder) {
    this.folder = folder;
    this.server = createServer((request, response) => void this.serve(request, response));
  }

  async start() {
    await new Promise((resolve) => this.server.listen(0, "127.0.0.1", resolve));
    this.origin = `http://127.0.0.1:${this.server.address().port}`;
    return this;
  }

  close() {
    this.endStreams();
    this.server.closeAllConnections();
    return new Promise((resolve) => this.server.close(resolve));
  }

  /** Sends an event to the streams that are open; to those of a job alone where one is named. */
  send(kind, data, { job, id } = {}) {
    for (const { response, words } of this.streams) {
      if (job !== undefined && words.get("job") !== job) continue;
      response.write(`event: ${kind}\ndata: ${JSON.stringify(data)}\n${id ? `id: ${id}\n` : ""}\n`);
    }
  }

  changed(jobs, rest = {}) {
    this.send("jobs", { jobs, removed: [], is_partial: false, ...rest });
  }

  endStreams() {
    for (const { response } of this.streams) response.destroy();
    this.streams.clear();
  }

  count = (path) => this.asked.filter((one) => one.split("?")[0] === path).length;

  async serve(request, response) {
    const url = new URL(request.url, "http://server");
    if (this.isDown) return void request.socket.destroy();
    if (!url.pathname.startsWith(API)) return this.sendFile(url.pathname, response);
    const path = url.pathname.slice(API.length);
    this.asked.push(path + url.search);
    if (request.method !== "GET") this.acted.push(`${request.method} ${path}`);
    let answer = this.answers[path];
    if (path.endsWith("/file-contents") && answer === undefined) return this.sendContents(path, url.searchParams, response);
    if (typeof answer === "function") answer = answer(url.searchParams, request, await contentOf(request));
    if (path === "/events" && answer === undefined) return this.openStream(url.searchParams, response);
    answer = await answer;
    if (answer === "break") return void request.socket.destroy();
    if (answer === undefined) answer = refusal(404, `nothing is scripted for ${path}`);
    if (Buffer.isBuffer(answer)) return sendPart(answer, request, response);
    response.writeHead(answer.refused ?? 200, { "Content-Type": "application/json" });
    response.end(JSON.stringify(answer.refused ? { what: answer.what, where: answer.where ?? "", fix: "" } : answer));
  }

  openStream(words, response) {
    response.writeHead(200, { "Content-Type": "text/event-stream", "Cache-Control": "no-store" });
    response.write(": watching\n\n");
    const stream = { response, words };
    this.streams.add(stream);
    response.on("close", () => this.streams.delete(stream));
  }

  /** The files of a job that are scripted, one after the other. */
  sendContents(path, words, response) {
    const files = path.replace("file-contents", "files/");
    const contents = words.getAll("path").map((one) => this.answers[files + one.split("/").map(encodeURIComponent).join("/")]);
    const sizes = contents.map((one) => (Buffer.isBuffer(one) ? one.length : -1));
    response.writeHead(200, { "Content-Type": "application/octet-stream", "Drumbeat-Sizes": sizes.join(",") });
    response.end(Buffer.concat(contents.filter((one) => Buffer.isBuffer(one))));
  }

  sendFile(path, response) {
    if (path === "/ui/pdf-frame") return sendFrame(this.folder, response);
    if (path.startsWith(DOCS)) return sendDocs(path.slice(DOCS.length), response);
    const file = join(this.folder, path.startsWith("/ui/assets/") ? path.slice("/ui/".length) : "index.html");
    if (!existsSync(file)) return void response.writeHead(404).end();
    response.writeHead(200, { "Content-Type": TYPES[extname(file)] ?? "application/octet-stream" });
    response.end(readFileSync(file));
  }
}

/** The frame of a PDF, with the policy that the server's routes give it. */
function sendFrame(folder, response) {
  const source = readFileSync(join(ROOT, "..", "src", "drumbeat", "server", "page", "routes.py"), "utf8");
  const script = readFileSync(join(folder, "assets", readdirSync(join(folder, "assets")).find((name) => name.startsWith("pdf-frame-"))));
  const digest = `sha256-${createHash("sha256").update(script).digest("base64")}`;
  const policy = /FRAME_POLICY = \(([^)]*)\)/.exec(source)[1].replace(/[\s"]*\n[\s"]*/g, " ").replace("{digest}", digest).trim();
  response.writeHead(200, { "Content-Type": TYPES[".html"], "Content-Security-Policy": policy });
  response.end(`<!doctype html><html lang="en"><title>PDF</title><body><script>${script}</script></body></html>`);
}

/** A page of the documentation or a picture of it, from the clone. */
function sendDocs(path, response) {
  const file = join(ROOT, "..", path);
  if (!/^(README\.md|docs\/[\w./-]+)$/.test(path) || !existsSync(file)) return void response.writeHead(404).end();
  response.writeHead(200, { "Content-Type": TYPES[extname(file)] ?? "text/markdown" });
  response.end(readFileSync(file));
}

/** A file, or the range of it that is asked for. */
function sendPart(content, request, response) {
  const [, from, to] = /bytes=(\d+)-(\d+)/.exec(request.headers.range ?? "") ?? [];
  const part = from === undefined ? content : content.subarray(Number(from), Number(to) + 1);
  const range = from === undefined ? {} : { "Content-Range": `bytes ${from}-${Number(from) + part.length - 1}/${content.length}` };
  response.writeHead(from === undefined ? 200 : 206, { "Content-Type": "application/octet-stream", ...range });
  response.end(part);
}

/** A job as the API shows it. */
export const jobOf = (name, changes = {}) => ({
  name, display_name: "", description: "", experiment: "tests", state: "running", reason: "training", sentence: `${name} trains`,
  observed: null, attempt: 1, round: 1, nodes: [], world_size: 1, node_count: 1, processes_per_node: 1, launcher: "torchrun",
  compute: "local", environment: "current", command: "python train.py", submitted_at: "2026-11-20T08:00:00Z",
  started_at: "2026-11-20T08:00:01Z", ended_at: null, stop_at: null, deadline: null, verdict: null, exit_code: null, failures: [],
  tags: {}, archived: false, priority: 0, properties: {}, notice: "", outputs: [], type: "command", ...changes,
});

export const completed = (name, changes = {}) =>
  jobOf(name, { state: "completed", reason: "", sentence: "1 rank ended with exit code 0", ended_at: "2026-11-20T08:05:00Z", ...changes });

export const storyLine = (n, sentence, changes = {}) =>
  ({ n, at: "2026-11-20T08:00:01Z", state: "running", reason: "training", sentence, attempt: 1, round: 1, ...changes });

/** The log of rank 0, a line in each piece. */
export function logOf(lines) {
  let offset = 0;
  const pieces = lines.map((line, n) => {
    const piece = { position: n + 1, attempt: 1, round: 1, node: 0, rank: 0, offset, text: `${line}\n` };
    offset += line.length + 1;
    return piece;
  });
  return { pieces, after: pieces.length, end: pieces.length, first: 0 };
}
