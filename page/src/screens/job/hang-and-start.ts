/** What the story says of a job's present round beside its states: a hang, how its nodes started. */

import type { Job, StoryLine } from "../../types";

const HANG = /^the job (?:hangs|may hang): /;
export const isHang = (sentence: string): boolean => HANG.test(sentence);

const GOES_ON = /^the ranks go on\b/;
const STACKS = /\b(hangs\/[\w.]+)/;

const CULPRIT = /^the job (?:hangs|may hang): rank (\d+) on node \d+ (.*?)(?:, while |; |$)/;

/** rank, word: the rank that is the cause, and what it does; undefined where none is. */
export interface Hang { sentence: string; file: string; rank?: number; word?: string }

/** The hang of the present round, unless it has passed. */
export function hangOf(job: Pick<Job, "state" | "attempt" | "round">, story: StoryLine[]): Hang | undefined {
  if (job.state !== "running") return undefined;
  const lines = story.filter((line) => line.attempt === job.attempt && line.round === job.round);
  const last = lines.findLast((line) => HANG.test(line.sentence) || GOES_ON.test(line.sentence));
  if (!last || GOES_ON.test(last.sentence)) return undefined;
  const [, rank, word] = CULPRIT.exec(last.sentence) ?? [];
  return { sentence: last.sentence, file: STACKS.exec(last.sentence)?.[1] ?? "", ...(word ? { rank: Number(rank), word } : {}) };
}

const SLOW_RANK = /^rank (\d+) on node \d+ is slow: /;
const SLOW_NODE = /^node (\d+) is slow: /;

/** ranks: those that the others wait for. */
export interface Slow { sentence: string; at: string; ranks: number[] }

/** What the looks at stacks have found in the present round. */
export function slowOf(job: Pick<Job, "state" | "attempt" | "round" | "processes_per_node">, story: StoryLine[]): Slow | undefined {
  if (job.state !== "running") return undefined;
  const line = story.findLast(({ attempt, round, sentence }) =>
    attempt === job.attempt && round === job.round && (SLOW_RANK.test(sentence) || SLOW_NODE.test(sentence)));
  if (!line) return undefined;
  const rank = SLOW_RANK.exec(line.sentence)?.[1];
  const first = Number(SLOW_NODE.exec(line.sentence)?.[1]) * job.processes_per_node;
  const ranks = rank === undefined ? Array.from({ length: job.processes_per_node }, (_, n) => first + n) : [Number(rank)];
  return { sentence: line.sentence, at: line.at, ranks };
}

/** How the ranks of a node started in its last round but the first: warm or cold. "" = it had but one. */
export function startOf(story: StoryLine[], node: number): string {
  const begin = `node ${node}: `;
  const line = story.findLast((one) => one.sentence.startsWith(begin) && / started (?:warm|cold)/.test(one.sentence));
  return line ? line.sentence.slice(begin.length) : "";
}
