/** How much a parameter of several runs matters: the share of the results' variance that it explains alone, and how sure that is. */

/** share: from 0 to 1. low, high: within which it lies in nine of ten samples of the same trials. direction: of a number, from -1 (more of it, lower results) to
 *  1. best: of words, the one with the highest and lowest mean of results. */
export interface Weighted { name: string; share: number; low: number; high: number; direction?: number; highest?: string; lowest?: string }

const MAX_BINS = 10;
const PER_BIN = 12;
const MIN_BINS = 4;
const SAMPLES = 100;
const MIN_SAMPLES = 20;
const MAX_WORK = 1e7;
const ROUNDS = 5;
/** Runs for each parameter, with which the shares of one can be told from those of another. */
export const ENOUGH = 10;

/** Shares that are 1 together at most, the highest first. Numbers are put into bins of equal count by their rank. */
export function importanceOf(parameters: Record<string, unknown>[], values: number[]): Weighted[] {
  const steps = importanceSteps(parameters, values);
  let step = steps.next();
  while (!step.done) step = steps.next();
  return step.value;
}

/** The same in steps of which each takes a few milliseconds of thousands of runs: between them a page draws, and answers keys. */
export function* importanceSteps(parameters: Record<string, unknown>[], values: number[]): Generator<undefined, Weighted[]> {
  const names = [...new Set(parameters.flatMap((one) => Object.keys(one)))];
  if (values.length < 3 || !differs(values)) return [];
  const usable: { name: string; settings: unknown[]; groups: Groups }[] = [];
  for (const name of names) {
    const settings = parameters.map((one) => one[name]);
    const groups = groupsOf(settings);
    if (groups.count > 1 && groups.count < values.length) usable.push({ name, settings, groups });
    yield;
  }
  if (!usable.length) return [];
  const groups = usable.map((one) => one.groups);
  const whole = explained(groups, values, undefined);
  const sampled: number[][] = [];
  for (const sample of samples(values.length, groups.length)) {
    yield;
    sampled.push(explained(groups, values, sample));
  }
  const weighted: Weighted[] = [];
  for (const [n, { name, settings }] of usable.entries()) {
    yield;
    const own = sampled.map((shares) => shares[n]!).sort((a, b) => a - b);
    weighted.push({ name, share: whole[n]!, low: own[Math.floor(own.length * 0.05)]!, high: own[Math.ceil(own.length * 0.95) - 1]!, ...tendency(settings, values) });
  }
  return weighted.sort((a, b) => b.share - a.share);
}

const differs = (values: number[]): boolean => values.some((value) => value !== values[0]);

/** Where parameters changed together by chance, the shares of each are more or less than all explain: they are parts of that. */
function partsOf(shares: number[], whole: number): number[] {
  const sum = shares.reduce((all, one) => all + one, 0);
  return shares.map((one) => (sum ? (one * whole) / sum : 0));
}

/** The parameters that so few runs can't tell from each other; [] = there are enough. */
export const tooFew = (names: string[], runs: number): string[] => (runs < ENOUGH * names.length ? names : []);

/** Runs drawn with replacement, the same ones each time: a drawing that changes by itself looks like news. */
function* samples(count: number, parameters: number): Generator<Uint32Array> {
  let state = 1;
  const draw = () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * count);
  };
  const affordable = Math.max(MIN_SAMPLES, Math.min(SAMPLES, Math.floor(MAX_WORK / (count * parameters * ROUNDS))));
  for (let n = 0; n < affordable; n += 1) yield Uint32Array.from({ length: count }, draw);
}

/** The share of the variance that the effects of each parameter have, with those of all others taken off (an additive model, fitted by turns as in Hastie and
 *  Tibshirani's backfitting). sample: which runs count, and how often; undefined = all, once. */
function explained(groups: Groups[], values: number[], sample: Uint32Array | undefined): number[] {
  const size = values.length;
  const rest = Float64Array.from({ length: size }, (_, n) => values[sample ? sample[n]! : n]!);
  const mean = average(rest);
  let total = 0;
  for (let n = 0; n < size; n += 1) total += (rest[n]! -= mean) ** 2;
  const effects = groups.map((one) => new Float64Array(one.count));
  const counts = groups.map((one) => {
    const own = new Float64Array(one.count);
    for (let n = 0; n < size; n += 1) own[one.of[sample ? sample[n]! : n]!]! += 1;
    return own;
  });
  for (let round = 0; round < ROUNDS; round += 1) {
    groups.forEach(({ of }, g) => {
      const [effect, count] = [effects[g]!, counts[g]!];
      const change = new Float64Array(effect.length);
      for (let n = 0; n < size; n += 1) change[of[sample ? sample[n]! : n]!]! += rest[n]!;
      for (let k = 0; k < change.length; k += 1) effect[k]! += change[k] = count[k] ? change[k]! / count[k]! : 0;
      for (let n = 0; n < size; n += 1) rest[n]! -= change[of[sample ? sample[n]! : n]!]!;
    });
  }
  let unexplained = 0;
  for (let n = 0; n < size; n += 1) unexplained += rest[n]! ** 2;
  const used = counts.map((count) => count.reduce((sum, one) => sum + (one > 0 ? 1 : 0), 0));
  const free = Math.max(1, size - 1 - used.reduce((sum, one) => sum + one - 1, 0));
  // As many groups as there are explain something by chance: that part is taken off.
  const shares = effects.map((effect, g) => {
    const sum = effect.reduce((all, one, k) => all + counts[g]![k]! * one * one, 0);
    return total ? Math.max(0, sum - ((used[g]! - 1) * unexplained) / free) / total : 0;
  });
  return partsOf(shares, total ? Math.max(0, 1 - (unexplained / free) / (total / (size - 1))) : 0);
}

/** of: the group of each run, from 0. */
interface Groups { of: number[]; count: number }

function groupsOf(settings: unknown[]): Groups {
  const numbers = settings.filter((one): one is number => typeof one === "number");
  const bins = Math.min(MAX_BINS, Math.max(MIN_BINS, Math.floor(settings.length / PER_BIN)), Math.max(1, Math.floor(settings.length / 2)));
  const isBinned = numbers.length === settings.length && new Set(numbers).size > bins;
  const keys = isBinned ? binsOf(numbers, bins) : settings.map((one) => JSON.stringify(one) ?? "");
  const known = [...new Set(keys)];
  const place = new Map(known.map((key, n) => [key, n]));
  return { of: keys.map((key) => place.get(key)!), count: known.length };
}

/** Bins of about equal count; equal numbers are in one. */
function binsOf(numbers: number[], bins: number): string[] {
  const first = new Map<number, number>();
  [...numbers].sort((a, b) => a - b).forEach((one, n) => first.has(one) || first.set(one, n));
  return numbers.map((one) => String(Math.floor((first.get(one)! / numbers.length) * bins)));
}

/** Of numbers, Spearman's correlation of ranks; of words, those with the highest and the lowest mean. */
function tendency(settings: unknown[], values: number[]): Pick<Weighted, "direction" | "highest" | "lowest"> {
  if (settings.every((one) => typeof one === "number")) return { direction: correlation(ranksOf(settings as number[]), ranksOf(values)) };
  const groups = new Map<string, number[]>();
  settings.forEach((one, n) => {
    const word = typeof one === "string" ? one : (JSON.stringify(one) ?? "–");
    groups.set(word, [...(groups.get(word) ?? []), values[n]!]);
  });
  const means = [...groups].map(([word, own]) => ({ word, mean: average(own) })).sort((a, b) => a.mean - b.mean);
  return { lowest: means[0]!.word, highest: means.at(-1)!.word };
}

/** Equal values have the mean of their ranks. */
function ranksOf(values: number[]): number[] {
  const order = [...values].sort((a, b) => a - b);
  const [first, last] = [new Map<number, number>(), new Map<number, number>()];
  order.forEach((one, n) => {
    if (!first.has(one)) first.set(one, n);
    last.set(one, n);
  });
  return values.map((one) => (first.get(one)! + last.get(one)!) / 2);
}

function correlation(xs: number[], ys: number[]): number {
  const [x, y] = [average(xs), average(ys)];
  let [both, onlyX, onlyY] = [0, 0, 0];
  xs.forEach((one, n) => {
    both += (one - x) * (ys[n]! - y);
    onlyX += (one - x) ** 2;
    onlyY += (ys[n]! - y) ** 2;
  });
  return onlyX && onlyY ? both / Math.sqrt(onlyX * onlyY) : 0;
}

function average(values: ArrayLike<number>): number {
  let sum = 0;
  for (let n = 0; n < values.length; n += 1) sum += values[n]!;
  return sum / values.length;
}
