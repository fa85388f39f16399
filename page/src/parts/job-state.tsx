/** A state as shape, colour and word: colour alone never carries it. */

import type { State } from "../types";

type Shape = "ring" | "quarter" | "half" | "full" | "square" | "check" | "cross" | "bar" | "arrow" | "warning";

const SHAPES: Record<string, [Shape, string]> = {
  queued: ["ring", "wait"],
  waiting: ["ring", "wait"],
  provisioning: ["quarter", "start"],
  staging: ["half", "start"],
  running: ["full", "run"],
  stopping: ["square", "wait"],
  finalizing: ["half", "run"],
  completed: ["check", "good"],
  reused: ["arrow", "good"],
  failed: ["cross", "bad"],
  canceled: ["bar", "off"],
  "not run": ["bar", "off"],
  attempt: ["bar", "off"],
  slow: ["warning", "wait"],
  hanging: ["warning", "wait"],
  creating: ["half", "start"],
  updating: ["half", "run"],
  ready: ["check", "good"],
  deleting: ["square", "wait"],
  idle: ["ring", "off"],
  unusable: ["cross", "bad"],
};

const PATHS: Record<Shape, string> = {
  ring: "M8 2.75a5.25 5.25 0 1 0 0 10.5a5.25 5.25 0 1 0 0-10.5Zm0 1.8a3.45 3.45 0 1 1 0 6.9a3.45 3.45 0 1 1 0-6.9Z",
  quarter: "M8 2.75a5.25 5.25 0 1 0 5.25 5.25H11.5A3.5 3.5 0 1 1 8 4.5Zm1.2 0V6.8h4.05A5.25 5.25 0 0 0 9.2 2.75Z",
  half: "M8 2.75a5.25 5.25 0 1 0 0 10.5Zm0 0v1.75a3.5 3.5 0 1 1 0 7v1.75a5.25 5.25 0 1 0 0-10.5Z",
  full: "M8 2.75a5.25 5.25 0 1 0 0 10.5a5.25 5.25 0 1 0 0-10.5Z",
  square: "M4 4h8v8H4Z",
  check: "M6.6 12.4 2.6 8.4l1.3-1.3 2.7 2.7 5.5-5.6 1.3 1.3Z",
  cross: "M4.4 3.1 8 6.7l3.6-3.6 1.3 1.3L9.3 8l3.6 3.6-1.3 1.3L8 9.3l-3.6 3.6-1.3-1.3L6.7 8 3.1 4.4Z",
  bar: "M3.5 7h9v2h-9Z",
  warning: "M8 1.8 15 14H1Zm-.9 4.4.2 4h1.4l.2-4Zm.9 5a.95.95 0 1 0 0 1.9a.95.95 0 0 0 0-1.9Z",
  arrow: "M8.5 3v2.5a5 5 0 0 0-5 5v2h1.8v-2a3.2 3.2 0 0 1 3.2-3.2V10L13 6.5Z",
};

const shapeOf = (state: string): [Shape, string] => SHAPES[state] ?? ["ring", "off"];

export const tone = (state: string): string => shapeOf(state)[1];

export function StateIcon({ state }: { state: string }) {
  const [shape, tone] = shapeOf(state);
  return (
    <svg class={`icon tone-${tone}`} viewBox="0 0 16 16" width="14" height="14" aria-hidden="true">
      <path d={PATHS[shape]} fill="currentColor" />
    </svg>
  );
}

export function StateWord({ state }: { state: State | string }) {
  return (
    <span class={`state tone-${shapeOf(state)[1]}`}>
      <StateIcon state={state} />
      <span>{state}</span>
    </span>
  );
}

/** The state of a job as a list says it: a job that hangs isn't one that runs. */
export const shownState = ({ state, reason }: { state: string; reason: string }): string => (state === "running" && reason === "hanging" ? "hanging" : state);

export const ENDED = new Set<string>(["completed", "failed", "canceled"]);
export const WAITING = new Set<string>(["queued", "provisioning", "staging"]);
