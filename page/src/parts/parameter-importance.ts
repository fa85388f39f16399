/** How much a parameter of a sweep matters: the share of the results' variance that it explains alone. */

export interface Weighted { name: string; share: number }

const BINS = 4;

/** Shares from 0 to 1, the highest first. Numbers are put into bins of equal count by their rank. */
export function importanceOf(parameters: Record<string, unknown>[], values: number[]): Weighted[] {
  const names = [...new Set(parameters.flatMap((one) => Object.keys(one)))];
  const shares = names.map((name) => ({ name, share: explained(parameters.map((one) => one[name]), values) }));
  return shares.filter((one) => Number.isFinite(one.share)).sort((a, b) => b.share - a.share);
}

function explained(settings: unknown[], values: number[]): number {
  const mean = average(values);
  const total = values.reduce((sum, value) => sum + (value - mean) ** 2, 0);
  if (values.length < 3 || total === 0) return Number.NaN;
  const groups = new Map<string, number[]>();
  grouped(settings).forEach((group, n) => groups.set(group, [...(groups.get(group) ?? []), values[n]!]));
  if (groups.size < 2 || groups.size >= values.length) return Number.NaN;
  let between = 0;
  for (const members of groups.values()) between += members.length * (average(members) - mean) ** 2;
  // As many groups as there are explain something by chance: that part is taken off.
  const chance = (groups.size - 1) / (values.length - 1);
  return Math.max(0, (between / total - chance) / (1 - chance));
}

function grouped(settings: unknown[]): string[] {
  const numbers = settings.filter((one): one is number => typeof one === "number");
  const distinct = new Set(numbers);
  if (numbers.length < settings.length || distinct.size <= BINS) return settings.map((one) => JSON.stringify(one) ?? "");
  const order = [...numbers].sort((a, b) => a - b);
  return settings.map((one) => String(Math.floor((order.indexOf(one as number) / order.length) * Math.min(BINS, Math.floor(order.length / 2)))));
}

const average = (values: number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length;
