/** Numbers, times and sizes as a person reads them, each with its unit. */

export function duration(seconds: number): string {
  const s = Math.max(0, seconds);
  if (s < 10) return `${s.toFixed(1)} s`;
  if (s < 60) return `${Math.floor(s)} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${pad(s % 60)} s`;
  if (s < 86_400) return `${Math.floor(s / 3600)} h ${pad((s % 3600) / 60)} min`;
  return `${Math.floor(s / 86_400)} d ${Math.floor((s % 86_400) / 3600)} h`;
}

const pad = (value: number): string => String(Math.floor(value)).padStart(2, "0");

/** Slot-seconds or GPU-seconds as hours. */
export function hours(seconds: number): string {
  const value = seconds / 3600;
  if (!seconds) return "0";
  return value >= 100 ? whole(Math.round(value)) : value >= 1 ? value.toFixed(1) : value >= 0.01 ? value.toFixed(2) : "< 0.01";
}

export function ago(seconds: number): string {
  if (seconds < 5) return "just now";
  if (seconds < 60) return `${Math.floor(seconds)} s ago`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)} h ago`;
  return `${Math.floor(seconds / 86_400)} d ago`;
}

/** A time no more exactly than an estimate is. */
export function about(seconds: number): string {
  const minutes = Math.max(1, Math.round(seconds / 60));
  if (minutes < 100) return `${minutes} min`;
  const hours = Math.round(seconds / 3600);
  return hours < 48 ? `${hours} h` : counted(Math.round(seconds / 86_400), "day");
}

/** time: as the API writes it, or in milliseconds. */
export function exact(time: string | number): string {
  const at = new Date(time);
  return `${at.getFullYear()}-${pad(at.getMonth() + 1)}-${pad(at.getDate())} ${clock(time)}`;
}

export function clock(time: string | number): string {
  const at = new Date(time);
  return `${pad(at.getHours())}:${pad(at.getMinutes())}:${pad(at.getSeconds())}`;
}

/** The time of a day, with the day where it isn't today. now: in milliseconds. */
export const dated = (time: string | number, now: number): string => (exact(time).slice(0, 10) === exact(now).slice(0, 10) ? clock(time) : exact(time));

/** How far the browser's clock is from UTC: `UTC+02:00`. */
export function zone(time: string): string {
  const minutes = -new Date(time).getTimezoneOffset();
  const [hours, rest] = [Math.floor(Math.abs(minutes) / 60), Math.abs(minutes) % 60];
  return minutes === 0 ? "UTC" : `UTC${minutes < 0 ? "-" : "+"}${String(hours).padStart(2, "0")}:${String(rest).padStart(2, "0")}`;
}

export const between = (from: string, to: string | number): number =>
  ((typeof to === "number" ? to : Date.parse(to)) - Date.parse(from)) / 1000;

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

export function size(bytes: number): string {
  let [value, unit] = [bytes, 0];
  while (value >= 1024 && unit < UNITS.length - 1) [value, unit] = [value / 1024, unit + 1];
  return `${unit && value < 100 ? value.toFixed(1) : Math.round(value)} ${UNITS[unit]}`;
}

const RATES = ["bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"];

export function rate(bits: number): string {
  let [value, unit] = [bits, 0];
  while (value >= 1000 && unit < RATES.length - 1) [value, unit] = [value / 1000, unit + 1];
  return `${unit && value < 10 ? value.toFixed(1) : Math.round(value)} ${RATES[unit]}`;
}

export const latency = (microseconds: number): string =>
  microseconds < 1000 ? `${microseconds} µs` : `${(microseconds / 1000).toFixed(microseconds < 10_000 ? 1 : 0)} ms`;

/** A number of a metric. digits: how many are significant. */
export function number(value: number | string | null | undefined, digits = 4): string {
  if (value === null || value === undefined) return "–";
  if (typeof value === "string") return value;
  if (!Number.isFinite(value)) return String(value);
  if (Number.isInteger(value) && Math.abs(value) < 1e6) return String(value);
  const magnitude = Math.abs(value);
  const isPlain = magnitude === 0 || (magnitude >= 1e-3 && magnitude < (digits > 6 ? 10 ** digits : 1e6));
  return isPlain ? String(Number(value.toPrecision(digits))) : value.toExponential(digits - 2);
}

const MAX_DIGITS = 16;

/** The numbers with as many digits as tell different ones apart, four at least. */
export function distinct(values: (number | string)[]): string[] {
  const count = new Set(values).size;
  for (let digits = 4; ; digits += 1) {
    const texts = values.map((value) => number(value, digits));
    if (digits === MAX_DIGITS || new Set(texts).size === count) return texts;
  }
}

/** Processor cores that are in use, with two digits: what is measured is no more exact. */
export const cores = (value: number | string): string => (typeof value === "number" ? value.toFixed(2) : value);

/** A count or a step: whole, with its thousands apart. `toLocaleString` would load the browser's tables of languages first. */
export const whole = (value: number): string => String(value).replace(/\B(?=(\d{3})+$)/g, ",");

export const counted = (count: number, word: string): string => `${whole(count)} ${word}${count === 1 ? "" : "s"}`;

/** `value` as a number for drawing: what JSON has no number for is a gap. */
export const drawable = (value: number | string): number | null => (typeof value === "number" ? value : null);

export function text(value: unknown): string {
  if (value === null || value === undefined) return "–";
  if (typeof value === "number") return number(value);
  return typeof value === "string" ? value : JSON.stringify(value);
}
