/** The job file of a job that is run again: its text is what counts, and the form reads and changes single values of it. */

import { isMap, isScalar, parse, parseDocument, type Document } from "yaml";
import type { Problem } from "../../api";
import { about, between, whole } from "../../format";
import type { Checkpoint, CodeSnapshot } from "../../types";

export type KeyPath = (string | number)[];

export interface Field { path: KeyPath; label: string; value: string }

/** The text without the name, which the new job gets of its own. */
export function textFor(definition: string): string {
  const document = parseDocument(definition);
  document.delete("name");
  return String(document);
}

/** What is in the text, or why it can't be read. */
export function readText(text: string): { document: Record<string, unknown> } | { problem: Problem } {
  const document = parseDocument(text);
  const error = document.errors[0];
  if (error) return { problem: { what: error.message.split("\n")[0]!, where: error.linePos ? `line ${error.linePos[0].line}` : "", fix: "" } };
  const value: unknown = document.toJS();
  if (!value || typeof value !== "object" || Array.isArray(value)) return { problem: { what: "a job file has keys with values", where: "line 1", fix: "" } };
  return { document: value as Record<string, unknown> };
}

/** Where an input's value is: of one that is described, in its path or default. */
const PARTS = ["path", "value", "default"];

/** The inputs of the text that have one value each. */
export function inputsOf(text: string): Field[] {
  const inputs = parseDocument(text).get("inputs");
  if (!isMap(inputs)) return [];
  return inputs.items.flatMap((pair) => {
    const name = String(isScalar(pair.key) ? pair.key.value : pair.key);
    const path: KeyPath = ["inputs", name];
    if (!isMap(pair.value)) return [{ path, label: name, value: shown(isScalar(pair.value) ? pair.value.value : pair.value) }];
    const described = pair.value;
    const part = PARTS.find((one) => described.has(one));
    return part ? [{ path: [...path, part], label: name, value: shown(described.get(part)) }] : [];
  });
}

const shown = (value: unknown): string => (value === null || value === undefined ? "" : String(value));

export function valueAt(text: string, path: KeyPath): string {
  return shown(parseDocument(text).getIn(path));
}

/** Whether a value is a text in the job file, also where it looks like a number. */
export const isText = (text: string, path: KeyPath): boolean => typeof parseDocument(text).getIn(path) === "string";

/** The text with another value, and everything else as it was written. An empty value removes the key, but not an input.
 *
 * original: the text before all changes; what was a text there stays one.
 */
export function withValue(text: string, path: KeyPath, written: string, original = text): string {
  const document = parseDocument(text);
  if (document.errors.length) return text;
  if (written === "" && path[0] !== "inputs") document.deleteIn(path);
  else document.setIn(path, written === "" || isText(original, path) ? written : scalarOf(written));
  prune(document, path.slice(0, -1));
  return String(document);
}

/** `0.005` is a number, `true` a truth value, and `a: b` a text. */
function scalarOf(written: string): unknown {
  try {
    const value: unknown = parse(written);
    return value !== null && typeof value === "object" ? written : value;
  } catch {
    return written;
  }
}

/** Whether what is typed is this value, such as `0.` while it becomes `0.5`: it stays as it was typed. */
export const standsFor = (typed: string, value: string): boolean => typed === value || shown(scalarOf(typed)) === value;

/** A table whose last key was removed goes, too. */
function prune(document: Document, path: KeyPath): void {
  const table = path.length ? document.getIn(path) : undefined;
  if (isMap(table) && table.items.length === 0) document.deleteIn(path);
}

/** The key of a problem, without the name of the document before it. */
export const keyOf = (problem: Problem): string => problem.where.replace(/^job(\.|: )/, "");

/** Whether a problem is about the value at a path, or about what stands around it. */
export function isAbout(problem: Problem, path: KeyPath): boolean {
  const key = keyOf(problem);
  const own = path.join(".");
  return key === own || own.startsWith(`${key}.`) || key.startsWith(`${own}.`);
}

/** From where a job continues: `from its last checkpoint (step 300, 12 min before it ended)`. */
export function checkpointLabel(last: Checkpoint, endedAt: string | null): string {
  const before = last.saved_at && endedAt ? between(last.saved_at, endedAt) : undefined;
  const when = before === undefined ? "" : before < SOON_S ? "when it ended" : `${about(before)} before it ended`;
  const known = [last.step === null ? "" : `step ${whole(last.step)}`, when].filter(Boolean).join(", ");
  return `from its last checkpoint${known && ` (${known})`}${last.is_certain ? "" : ", if it saved one"}`;
}

const SOON_S = 30;

/** The snapshots that a job may run beside its own one. */
export const otherCode = (snapshots: readonly CodeSnapshot[], own: string): CodeSnapshot[] => snapshots.filter((one) => one.digest !== own);

export interface Start { like: string; resume: boolean; code: string }

/** What the server is asked to plan or to run. code: "" = that of the job that is run again; the commit of another one isn't known. */
export function requestOf(document: Record<string, unknown>, { like, resume, code }: Start): Record<string, unknown> {
  const properties = Object.entries((document.properties ?? {}) as Record<string, unknown>);
  const sent = code && properties.length ? { ...document, properties: Object.fromEntries(properties.filter(([key]) => !COMMIT.test(key))) } : document;
  return { document: sent, like, ...(resume ? { resume } : {}), ...(code ? { code } : {}) };
}

/** Properties that say which commit the code is. */
const COMMIT = /^(azureml|mlflow\.source)\.git\./;
