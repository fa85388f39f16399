/** What a table of runs shows: the words of the address, a saved view, and how the server is asked. The grammar of the texts is the server's: `core/run_queries`. */

import { segment, type Query } from "../../api";
import type { RunField, RunView } from "../../types";

/** Runs that are shown before the others have come, and those that one request brings. */
export const FIRST = 100;
export const PAGE = 2000;
export const MAX_RUNS = 10_000;

export interface Choice { columns: string; where: string; sort: string; group: string }
export interface SortKey { field: string; descends: boolean }

const WORDS = ["columns", "where", "sort", "group"] as const;

/** The choice of an address; that of a saved view where the address names one and nothing else. */
export function choiceOf(query: URLSearchParams, view?: RunView): Choice {
  const choice = view && !WORDS.some((word) => query.has(word))
    ? { columns: view.columns, where: view.where, sort: view.sort, group: view.group_by }
    : (Object.fromEntries(WORDS.map((word) => [word, query.get(word) ?? ""])) as unknown as Choice);
  return { ...choice, columns: renamed(choice.columns), sort: renamed(choice.sort), group: renamed(choice.group) };
}

/** Fields with the names that they have now: views that were saved before call the user `person`. */
const renamed = (text: string): string => text.replace(/(^|,)(\s*)person(?=\s*(,|$|asc|desc))/g, "$1$2user");

/** The path of an experiment's runs, fields or views; of those of all experiments where none is named. */
export const pathOf = (experiment: string, what: "runs" | "run-fields" | "views"): string =>
  experiment ? `/experiments/${segment(experiment)}/${what}` : `/${what}`;

/** Jobs that are part of none, unless trials and steps are wanted: `parent` is sent empty, which an absent word is not. */
export const withParts = (path: string, hasParts: boolean): string => (hasParts ? path : `${path}?parent=`);

export const askedFor = (choice: Choice, columns: string[], isArchived: boolean): Query =>
  ({ columns: columns.join(","), where: choice.where, sort: choice.sort, archived: isArchived ? "all" : "false" });

/** Parts of a list with commas, but for those in quotes. */
export function partsOf(text: string): string[] {
  const parts = text.match(/(?:[^,"'`]|"(?:[^"]|"")*"|'(?:[^']|'')*'|`[^`]*`)+/g) ?? [];
  return parts.map((part) => part.trim()).filter((part) => part);
}

export function sortOf(text: string): SortKey[] {
  return partsOf(text).map((part) => {
    const word = /\s+(asc|desc)$/i.exec(part);
    return { field: word ? part.slice(0, word.index).trim() : part, descends: word?.[1]!.toLowerCase() === "desc" };
  });
}

export const sortText = (keys: SortKey[]): string => keys.map((key) => key.field + (key.descends ? " desc" : "")).join(", ");

/** The order after a click on a column: up and down, then none; beside the others where `isAdded`. Numbers begin with the largest. */
export function sortedBy(keys: SortKey[], field: string, isNumber: boolean, isAdded: boolean): SortKey[] {
  const known = keys.find((key) => key.field === field);
  const next = !known ? { field, descends: isNumber } : known.descends === isNumber ? { field, descends: !isNumber } : undefined;
  if (!isAdded) return next ? [next] : [];
  return known ? keys.flatMap((key) => (key.field !== field ? [key] : next ? [next] : [])) : [...keys, next!];
}

const NUMBERS = new Set(["number", "duration", "time"]);
export const isNumber = (unit: string): boolean => NUMBERS.has(unit);

const COMPARATORS: Record<string, string[]> = {
  text: ["=", "!=", "~", "LIKE", "ILIKE", "IN (", "IS NULL", "IS NOT NULL"],
  number: ["<", "<=", ">", ">=", "=", "!=", "IS NULL", "IS NOT NULL"],
};

export interface Completion { from: number; to: number; items: string[] }

/** What may stand where the caret is. values: those that runs have of a field. */
export function completionOf(text: string, caret: number, fields: RunField[], values: (field: string) => string[]): Completion {
  const before = text.slice(0, caret);
  const condition = /^(?:[\s\S]*\sand\s+)?([\s\S]*)$/i.exec(before)![1]!;
  const start = caret - condition.length;
  const fitting = (from: number, all: string[], limit = 12): Completion => {
    const word = text.slice(from, caret).toLowerCase();
    const begin = all.filter((one) => one.toLowerCase().startsWith(word));
    const within = word ? all.filter((one) => !one.toLowerCase().startsWith(word) && one.toLowerCase().includes(word)) : [];
    return { from, to: caret, items: [...begin, ...within].filter((one) => one !== text.slice(from, caret)).slice(0, limit) };
  };
  const field = /^(\w+\([^)]*\)|(?:[^\s"'`<>=!~]|"[^"]*"|`[^`]*`)+)\s+/.exec(condition);
  if (!field) return fitting(start, fields.map((one) => one.field));
  const unit = fields.find((one) => one.field === field[1])?.unit ?? "any";
  const comparators = [...new Set(unit === "any" ? [...COMPARATORS.number!, ...COMPARATORS.text!] : COMPARATORS[isNumber(unit) ? "number" : "text"]!)];
  const comparator = /^(?:[<>=!~]+|like|ilike|in\s*\((?:[^)]*,)?|not\s+in\s*\((?:[^)]*,)?)\s*/i.exec(condition.slice(field[0].length));
  if (!comparator) return fitting(start + field[0].length, comparators);
  const from = start + field[0].length + comparator[0].length;
  if (/\s$/.test(text.slice(from, caret)) && text.slice(from, caret).trim()) return fitting(caret, ["and"]);
  return fitting(from, isNumber(unit) ? [] : values(field[1]!).map(valueText));
}

/** A value as filters have it. */
export const valueText = (value: string): string => (/^[^\s"'`()<>=!~,]+$/.test(value) ? value : `'${value.replaceAll("'", "''")}'`);
