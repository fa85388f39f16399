/** Calls of the server's public API, with the page's session. */

import type { Session } from "./types";

const ROOT = "/api/v1";

export type Query = Record<string, string | number | boolean | undefined | null | (string | number)[]>;

export interface Problem { what: string; where: string; fix: string }

/** A refusal of the server in its four parts. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly what: string,
    readonly where = "",
    readonly fix = "",
    /** Of what concerns several things, what was said of each. */
    readonly details: readonly string[] = [],
    /** The single problems of what was sent, each with its key. */
    readonly problems: readonly Problem[] = [],
  ) {
    super(what);
  }
}

export const segment = encodeURIComponent;

/** An address of the API; `path` may carry words of its own, also empty ones. */
export function address(path: string, query: Query = {}): string {
  const words = new URLSearchParams();
  for (const [key, value] of Object.entries(query)) {
    if (value === undefined || value === null || value === "") continue;
    for (const one of Array.isArray(value) ? value : [value]) words.append(key, String(one));
  }
  const text = words.toString();
  return `${ROOT}${path}${text ? `${path.includes("?") ? "&" : "?"}${text}` : ""}`;
}

/** The address of a file of a job: each segment escaped, slashes kept. */
export function fileAddress(job: string, path: string): string {
  return `${ROOT}/jobs/${segment(job)}/files/${path.split("/").map(segment).join("/")}`;
}

let expired: () => void = () => undefined;

/** Calls `listener` when the session has ended. */
export function onExpired(listener: () => void): void {
  expired = listener;
}

async function refusal(answer: Response): Promise<ApiError> {
  if (answer.status === 401) {
    known = undefined;
    expired();
  }
  // A proxy before the server has words of its own, or none.
  const { what, where, fix, fields = [] } = await answer.json().catch(() => ({}));
  return typeof what === "string" ? new ApiError(answer.status, what, where, fix, [], fields.length ? fields : [{ what, where, fix }]) : new ApiError(answer.status, `the server answered ${answer.status}`);
}

const EARLY_MS = 5000;
/** How long an early answer is fresh. */
const early = new Map<string, Promise<Response>>();

/** Asks for what a component will need: it finds the answer under way, or here, when it asks itself. */
export function prefetch(input: string): void {
  const answer = fetch(input, { credentials: "same-origin" });
  early.set(input, answer);
  answer.catch(() => early.delete(input));
  setTimeout(() => early.delete(input), EARLY_MS);
}

function taken(input: string): Promise<Response> | undefined {
  const answer = early.get(input);
  early.delete(input);
  return answer;
}

let settle: () => void = () => undefined;
/** Once the first answer that a screen waits for is shown: until then, what can wait leaves the server to it. */
export const settled = new Promise<void>((resolve) => {
  settle = resolve;
  setTimeout(resolve, EARLY_MS);
});

/** Says that an answer has been given to the screen. */
export function noteAnswer(): void {
  setTimeout(settle);
}

let skew = 0;
const LEAST_SKEW_MS = 5000;
/** A difference from the server's clock that an answer's way and the whole seconds of its date don't explain. */

/** The time by the server's clock, in milliseconds: times of jobs are the server's. */
export const serverNow = (): number => Date.now() + skew;

function noteClock(answer: Response): void {
  const date = Date.parse(answer.headers.get("Date") ?? "");
  if (Number.isNaN(date)) return;
  const found = date - Date.now();
  skew = Math.abs(found) < LEAST_SKEW_MS ? 0 : found;
}

async function sent(input: string, init: RequestInit): Promise<Response> {
  const prefetched = init.method ? undefined : taken(input);
  let answer: Response;
  try {
    answer = await (prefetched ?? fetch(input, { credentials: "same-origin", ...init }));
  } catch (error) {
    if (init.signal?.aborted) throw error;
    throw new ApiError(0, "the server does not answer", location.host, "`drumbeat server status` shows whether it runs.");
  }
  // What the HTML names may come from the browser's cache, with the date of another day.
  if (!prefetched) noteClock(answer);
  if (!answer.ok) throw await refusal(answer);
  return answer;
}

/** What `read` makes of an answer's content; a content that breaks off is a refusal like any other. */
async function contentOf<T>(answer: Response, read: (answer: Response) => Promise<T>): Promise<T> {
  try {
    return await read(answer);
  } catch {
    throw new ApiError(0, "the server's answer broke off", location.host);
  }
}

export async function get<T>(path: string, query: Query = {}, signal?: AbortSignal): Promise<T> {
  const answer = await sent(address(path, query), { signal: signal ?? null });
  return contentOf(answer, (one) => one.json());
}

/** At most `limit` bytes of a file from a place on, and the file's size. priority: "low" for what is fetched before it is shown. */
export async function getFile(job: string, path: string, limit: number, from = 0, priority: RequestPriority = "auto"): Promise<{ bytes: ArrayBuffer; size: number }> {
  const answer = await sent(fileAddress(job, path), { headers: { Range: `bytes=${from}-${from + limit - 1}` }, priority });
  const bytes = await contentOf(answer, (one) => one.arrayBuffer());
  const total = answer.headers.get("Content-Range")?.split("/")[1];
  return { bytes, size: total ? Number(total) : bytes.byteLength };
}

/** Small files of a job in one answer, in their order; undefined = this one is to be asked for alone. */
export async function getContents(job: string, paths: string[], priority: RequestPriority): Promise<(ArrayBuffer | undefined)[]> {
  const answer = await sent(address(`/jobs/${segment(job)}/file-contents`, { path: paths }), { priority });
  const bytes = await contentOf(answer, (one) => one.arrayBuffer());
  const sizes = (answer.headers.get("Drumbeat-Sizes") ?? "").split(",").map(Number);
  let at = 0;
  return paths.map((_, n) => (sizes[n]! >= 0 ? bytes.slice(at, (at += sizes[n]!)) : undefined));
}

/** The name of the identity provider by which people sign in; "" = there is none, or it isn't known now. */
export async function providerName(): Promise<string> {
  try {
    const answer = await fetch("/ui/sign-in/provider", { credentials: "same-origin" });
    const { name } = await answer.json();
    return typeof name === "string" ? name : "";
  } catch {
    return "";
  }
}

/** The path of a one-time link for the user of a token. */
export async function tokenLink(token: string): Promise<string> {
  const answer = await fetch(address("/page/links"), { method: "POST", credentials: "omit", headers: { Authorization: `Bearer ${token}` } })
    .catch(() => { throw new ApiError(0, "the server does not answer", location.host); });
  if (answer.status === 401) throw new ApiError(401, "this is no token of this server, or it has ended");
  if (!answer.ok) throw await refusal(answer);
  return (await answer.json()).path;
}

let known: Promise<Session> | undefined;

/** Whose page this is, and what its actions carry; asked for once in a session. */
export async function session(): Promise<Session> {
  const asked = (known ??= get<Session>("/page/session"));
  try {
    return await asked;
  } catch (error) {
    if (known === asked) known = undefined;
    throw error;
  }
}

/** Does something; once more where the token was that of an earlier session, which another link has replaced. */
export async function act<T>(method: "POST" | "DELETE" | "PUT" | "PATCH", path: string, query: Query = {}, body?: unknown): Promise<T> {
  const content = body === undefined ? {} : { body: JSON.stringify(body) };
  const headers: Record<string, string> = body === undefined ? {} : { "Content-Type": "application/json" };
  const send = (token: string) => sent(address(path, query), { method, headers: { ...headers, "Drumbeat-Action": token }, ...content });
  const { action_token: token } = await session();
  const answer = await send(token).catch(async (error) => {
    if (!(error instanceof ApiError) || error.status !== 403) throw error;
    known = undefined;
    const { action_token: newer } = await session();
    if (newer === token) throw error;
    return send(newer);
  });
  const text = await answer.text();
  return text ? JSON.parse(text) : (undefined as T);
}
