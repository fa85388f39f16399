/** The nodes of a large job in groups of those that are alike, the odd ones first. */

import { counted, whole } from "../../format";
import type { Exit, Job, JobNode } from "../../types";

/** Of more nodes than these, those that are alike share a card. */
export const SHOWN_NODES = 32;
const SHOWN_RANGES = 6;

export interface NodeGroup {
  key: string;
  /** How far the nodes are. */
  state: string;
  /** What they say of it. */
  word: string;
  /** How their ranks ended. */
  ends: string;
  /** Whether something is wrong with them. */
  isOdd: boolean;
  nodes: JobNode[];
}

type Grouped = Pick<Job, "nodes" | "processes_per_node" | "verdict" | "state">;

/** oddRanks: those that hang, or are slow. */
export function groupsOf(job: Grouped, oddRanks: number[], wordOf: (exit: Exit) => string): NodeGroup[] {
  const cause = job.state === "failed" ? (job.verdict?.rank ?? -1) : -1;
  const oddNodes = new Set([...oddRanks, cause].filter((rank) => rank >= 0).map((rank) => Math.floor(rank / job.processes_per_node)));
  const groups = new Map<string, NodeGroup>();
  for (const node of job.nodes) {
    const state = nodeState(node);
    const [word, ends] = [node.error || node.detail, endsOf(node.exits, wordOf)];
    const isOdd = node.lost || node.error !== "" || oddNodes.has(node.node);
    const key = [state, word, ends, isOdd].join("\n");
    const group = groups.get(key) ?? { key, state, word, ends, isOdd, nodes: [] };
    groups.set(key, group);
    group.nodes.push(node);
  }
  return [...groups.values()].sort((a, b) => Number(b.isOdd) - Number(a.isOdd) || a.nodes.length - b.nodes.length);
}

export function nodeState(node: JobNode): string {
  return node.lost ? "lost" : node.phase || "awaited";
}

/** `7 ranks: exit 0, 1 rank: exit 1`; "" = none has ended. */
function endsOf(exits: Exit[], wordOf: (exit: Exit) => string): string {
  const counts = new Map<string, number>();
  for (const exit of exits) counts.set(wordOf(exit), (counts.get(wordOf(exit)) ?? 0) + 1);
  return [...counts].map(([word, count]) => `${counted(count, "rank")}: ${word}`).join(", ");
}

/** `0–3, 7, 9–4095`; of many ranges the first ones, and how many numbers there are more. */
export function rangesOf(numbers: number[]): string {
  const ranges: [number, number][] = [];
  for (const one of numbers) {
    const last = ranges.at(-1);
    if (last && last[1] === one - 1) last[1] = one;
    else ranges.push([one, one]);
  }
  const words = ranges.slice(0, SHOWN_RANGES).map(([first, last]) => (first === last ? `${first}` : `${first}–${last}`));
  const more = ranges.slice(SHOWN_RANGES).reduce((sum, [first, last]) => sum + last - first + 1, 0);
  return words.join(", ") + (more ? ` and ${whole(more)} more` : "");
}
