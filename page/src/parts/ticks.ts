/** The texts at the marks of an axis: neighbours differ, whatever the range. */

import { clock, exact } from "../format";

const MAX_PLAIN = 9;
/** Characters; longer texts are written with an exponent, if that is shorter. */
const DAY_S = 86_400;

/** Of numbers in equal distances: decimals by the distance. */
export function numberTicks(values: number[]): string[] {
  const step = distance(values);
  if (!step) return values.map(String);
  const place = Math.floor(Math.log10(step) + 1e-9);
  const decimals = Math.max(0, isWhole(step / 10 ** place) ? -place : 1 - place);
  const plain = values.map((value) => (decimals > 100 ? String(value) : unsigned(value.toFixed(decimals))));
  const scientific = values.map((value) => exponential(value, place - (isWhole(step / 10 ** place) ? 0 : 1)));
  const isShorter = longest(plain) > MAX_PLAIN && longest(scientific) < longest(plain);
  return isShorter ? scientific : plain;
}

/** Of times in seconds: hours and minutes, seconds where they count, and below them the day at the first mark of each. */
export function timeTicks(values: number[]): string[] {
  const step = distance(values);
  const days = values.map((value) => exact(value * 1000).slice(0, 10));
  if (step >= DAY_S / 2) return days;
  const digits = step < 60 ? 8 : 5;
  return values.map((value, n) => clock(value * 1000).slice(0, digits) + (days[n] === days[n - 1] ? "" : `\n${days[n]}`));
}

const distance = (values: number[]): number =>
  values.slice(1).reduce((least, value, n) => Math.min(least, Math.abs(value - values[n]!) || least), Infinity) % Infinity || 0;

const isWhole = (value: number): boolean => Math.abs(value - Math.round(value)) < 1e-6;
const longest = (texts: string[]): number => Math.max(...texts.map((text) => text.length));
const unsigned = (text: string): string => (Number(text) === 0 ? text.replace("-", "") : text);

/** place: the power of ten of the last digit that counts. */
function exponential(value: number, place: number): string {
  if (value === 0) return "0";
  const digits = Math.floor(Math.log10(Math.abs(value)) + 1e-9) - place;
  return digits < 0 ? "0" : value.toExponential(Math.min(digits, 100));
}
