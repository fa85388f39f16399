/** What the screens of endpoints ask for, and how they keep it fresh. */

import { useEvents, useInterval, useThrottled } from "../../hooks";
import type { DeploymentRequests, RequestRates } from "../../types";

const INTERVAL_MS = 5000;
/** The server notes what the router counts as often. */

/** The requests of all endpoints, or of one with its curves. */
export const requestsPath = (endpoint?: string): string =>
  endpoint === undefined ? "/endpoint-requests" : `/endpoint-requests?endpoint=${new URLSearchParams({ "": endpoint }).toString().slice(1)}&curves=true`;

/** Asks again when a job changes, and every few seconds: requests are no events. */
export function useFresh(...answers: { reload: () => void }[]): void {
  const reload = () => answers.forEach((one) => one.reload());
  useEvents("jobs", useThrottled(reload, 1000));
  useEvents("again", reload);
  useInterval(reload, INTERVAL_MS);
}

/** Where a model of the registry is shown; undefined for files that are no version. */
export function modelOf(path: string): { name: string; version: string } | undefined {
  const [, name, version] = /^azureml:([^/:]+):([^/:]+)$/.exec(path) ?? [];
  return name && version ? { name, version } : undefined;
}

/** A number of requests in a second, short. */
export const perSecond = (value: number): string => (value === 0 ? "0" : value < 10 ? value.toFixed(1) : String(Math.round(value)));

/** Milliseconds, short; a dash where there was no request. */
export const milliseconds = (value: number | null): string =>
  value === null ? "–" : value < 10 ? `${value.toFixed(1)} ms` : value < 10_000 ? `${Math.round(value)} ms` : `${(value / 1000).toFixed(0)} s`;

export interface Line { label: string; x: number[]; y: (number | null)[] }

/** A line for each deployment; several deployments have their names before what is drawn of each. */
export function linesOf(all: DeploymentRequests[], ...drawn: [label: string, read: (rates: RequestRates) => number | null][]): Line[] {
  return all.filter((one) => one.curve.times.length > 0).flatMap((one) => drawn.map(([label, read]) => ({
    label: [one.deployment.definition.name, label].filter(Boolean).join(" "), x: one.curve.times, y: one.curve.rates.map(read),
  })));
}
