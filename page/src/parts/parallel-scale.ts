/** Scales of parallel coordinates: where a setting's value stands on its axis, from 0 at the bottom to 1. */

export interface Tick { at: number; label: string }
export interface Scale { at: (value: unknown) => number; ticks: Tick[] }

const TICKS = 5;
const LOG_SPAN = 100;
/** Settings that span more than two powers of ten were drawn from a logarithmic space. */

/** What a setting means: trials keep the text of a number that was typed as `1e-4` or `010`. */
export const settingOf = (value: unknown): unknown =>
  typeof value === "string" && value.trim() && Number.isFinite(Number(value)) ? Number(value) : value;

/** isLog: undefined = where the values span more than two powers of ten. */
export function scaleOf(cells: unknown[], format: (value: number) => string, isLog?: boolean): Scale {
  if (cells.some((cell) => typeof cell !== "number")) return categories(cells);
  const numbers = cells as number[];
  let [low, high] = [Infinity, -Infinity];
  for (const one of numbers) [low, high] = [Math.min(low, one), Math.max(high, one)];
  if (low > 0 && high > low && (isLog ?? high / low > LOG_SPAN)) return logarithmic(low, high, format);
  return new Set(numbers).size <= TICKS ? listed(numbers, low, high, format) : linear(low, high, format);
}

export const wordOf = (value: unknown): string => (typeof value === "string" ? value : (JSON.stringify(value) ?? "–"));

function categories(cells: unknown[]): Scale {
  const words = [...new Set(cells.map(wordOf))].sort();
  const place = new Map(words.map((word, n) => [word, (n + 0.5) / words.length]));
  return { at: (value) => place.get(wordOf(value)) ?? 0, ticks: words.map((label) => ({ at: place.get(label)!, label })) };
}

function logarithmic(low: number, high: number, format: (value: number) => string): Scale {
  const [bottom, span] = [Math.log10(low), Math.log10(high) - Math.log10(low)];
  const at = (value: unknown): number => (Math.log10(value as number) - bottom) / span;
  const powers: number[] = [];
  for (let power = Math.ceil(bottom); power <= bottom + span; power += 1) powers.push(10 ** power);
  // Within one power of ten its ends are named.
  if (powers.length < 2) powers.splice(0, powers.length, low, high);
  return { at, ticks: powers.map((value) => ({ at: at(value), label: value < 1e-3 ? value.toExponential(0) : format(value) })) };
}

/** Few values: each has its tick. */
function listed(numbers: number[], low: number, high: number, format: (value: number) => string): Scale {
  const at = (value: unknown): number => (high > low ? ((value as number) - low) / (high - low) : 0.5);
  return { at, ticks: [...new Set(numbers)].map((value) => ({ at: at(value), label: format(value) })) };
}

function linear(low: number, high: number, format: (value: number) => string): Scale {
  const step = roundStep((high - low) / TICKS);
  const [bottom, top] = [Math.floor(low / step) * step, Math.ceil(high / step) * step];
  const at = (value: unknown): number => ((value as number) - bottom) / (top - bottom);
  const count = Math.round((top - bottom) / step);
  const ticks = Array.from({ length: count + 1 }, (_, n) => bottom + n * step);
  return { at, ticks: ticks.map((value) => ({ at: at(value), label: format(Number(value.toPrecision(12))) })) };
}

/** 1, 2 or 5 times a power of ten, at least as large as `wanted`. */
function roundStep(wanted: number): number {
  const power = 10 ** Math.floor(Math.log10(wanted));
  return power * ([1, 2, 5, 10].find((factor) => factor * power >= wanted * 0.999) ?? 10);
}
