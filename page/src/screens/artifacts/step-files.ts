/** Files that jobs have logged by step, found by their names: those of `drumbeat.log` and of MLflow's `log_image`. */

import type { FileEntry } from "../../types";

export type Kind = "images" | "tables" | "histograms" | "texts";

/** One image, table, histogram or text of a step. */
export interface StepFile {
  path: string;
  size: number;
  /** MLflow's small copy of an image. */
  small?: string;
  /** Unknown of MLflow's. */
  rank?: number;
  index: number;
  /** The file with the captions of a step's images. */
  captions?: string;
}

/** What was logged by one name. */
export interface Series {
  kind: Kind;
  name: string;
  /** Ascending. */
  steps: number[];
  files: Map<number, StepFile[]>;
}

interface Found extends StepFile { kind: Kind; name: string; step: number; at: number; id: string; isSmall: boolean; isCaptions: boolean }

const NAME = /^outputs\/mlflow-artifacts\/[^/]+\/(images|tables|histograms|texts)\/([^/]+?)([+%])step\3(-?\d+)\3timestamp\3(\d+)\3([^/]+?)(?:\3(compressed))?\.(captions\.json|[a-z0-9]+)$/;
const OF_RANK = /^(\d+)-(\d+)$/;
const ENDINGS: Record<Kind, RegExp> = { images: /^(png|jpe?g|gif|webp)$/, tables: /^json$/, histograms: /^json$/, texts: /^txt$/ };

function found({ path, size }: FileEntry): Found | undefined {
  const parts = NAME.exec(path);
  if (!parts) return undefined;
  const [, folder, key, , step, at, id, small, ending] = parts;
  const kind = folder as Kind;
  const isCaptions = ending === "captions.json";
  if (!isCaptions && !ENDINGS[kind].test(ending!)) return undefined;
  const own = OF_RANK.exec(id!);
  return {
    path, size, kind, name: key!.replace(/[~#]/g, "/"), step: Number(step), at: Number(at), id: id!, isSmall: small !== undefined, isCaptions,
    index: own ? Number(own[2]) : 0, ...(own ? { rank: Number(own[1]) } : {}),
  };
}

export const isStepFile = (path: string): boolean => NAME.test(path);

/** The series of some files, images first, each by its name. */
export function seriesOf(files: FileEntry[]): Series[] {
  const byName = new Map<string, Found[]>();
  for (const file of files) {
    const one = found(file);
    if (!one) continue;
    const key = `${one.kind} ${one.name}`;
    const before = byName.get(key);
    if (before) before.push(one);
    else byName.set(key, [one]);
  }
  const order: Kind[] = ["images", "texts", "tables", "histograms"];
  return [...byName.values()].map(ofName)
    .sort((one, other) => order.indexOf(one.kind) - order.indexOf(other.kind) || one.name.localeCompare(other.name));
}

function ofName(all: Found[]): Series {
  const steps = new Map<number, Found[]>();
  for (const one of all) {
    const before = steps.get(one.step);
    if (before) before.push(one);
    else steps.set(one.step, [one]);
  }
  const ascending = [...steps.keys()].sort((one, other) => one - other);
  const files = new Map(ascending.map((step) => [step, ofStep(steps.get(step)!)]));
  return { kind: all[0]!.kind, name: all[0]!.name, steps: ascending, files };
}

/** The files of a step: of a rank that has logged it again, as one that resumes does, the newer ones. */
function ofStep(all: Found[]): StepFile[] {
  const newest = new Map<number, number>();
  for (const { rank, at } of all) if (rank !== undefined) newest.set(rank, Math.max(at, newest.get(rank) ?? 0));
  const kept = all.filter(({ rank, at }) => rank === undefined || newest.get(rank) === at);
  const smalls = new Map(kept.filter((one) => one.isSmall).map((one) => [one.id, one.path]));
  const captions = new Map(kept.filter((one) => one.isCaptions).map((one) => [one.rank, one.path]));
  const whole = new Set(kept.filter((one) => !one.isSmall && !one.isCaptions).map((one) => one.id));
  return kept.filter((one) => !one.isCaptions && (!one.isSmall || !whole.has(one.id)))
    .sort((one, other) => (one.rank ?? 0) - (other.rank ?? 0) || one.index - other.index || one.at - other.at || one.id.localeCompare(other.id))
    .map(({ path, size, rank, index, id }) => {
      const [small, told] = [smalls.get(id), captions.get(rank)];
      return { path, size, index, ...(rank === undefined ? {} : { rank }), ...(small ? { small } : {}), ...(told ? { captions: told } : {}) };
    });
}

/** The last of these steps that isn't after `step`; undefined = all of them are. */
export function stepAt(steps: number[], step: number): number | undefined {
  let [low, high] = [0, steps.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (steps[middle]! <= step) low = middle + 1;
    else high = middle;
  }
  return steps[low - 1];
}

/** All steps of some series, ascending. */
export const allSteps = (series: Series[]): number[] => [...new Set(series.flatMap((one) => one.steps))].sort((one, other) => one - other);

/** At most `most` of these, evenly, the first and the last among them. */
export function thinned(steps: number[], most: number): number[] {
  if (steps.length <= most) return steps;
  return Array.from({ length: most }, (_, n) => steps[Math.round((n * (steps.length - 1)) / (most - 1))]!);
}
