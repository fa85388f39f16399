/** Sentences and numbers of a job, as the terminal says them. */

import { counted, number } from "../../format";
import type { Job, StoryLine } from "../../types";

const TRANSFERRING = new Set(["staging", "finalizing"]);

/** What happens now: a node's progress with inputs or outputs, what holds outputs up, or the job's sentence. */
export function progressOf(job: Job): string {
  const notices = job.outputs.flatMap(noticeOf);
  if (notices.length) return [job.sentence, ...notices].join("; ");
  const reporting = job.nodes.filter((node) => node.detail && !node.error && !node.lost);
  const node = reporting.find((one) => one.detail.includes("waits")) ?? reporting[0];
  if (job.state === "running" && job.reason === "training" && job.primary) {
    return `training; ${job.primary.name} is ${number(job.primary.value)} at step ${number(job.primary.step)}`;
  }
  if (!TRANSFERRING.has(job.state) || !node) return job.sentence;
  const detail = job.node_count > 1 ? `node ${node.node}: ${node.detail}` : node.detail;
  return job.state === "finalizing" ? `${detail}; ${job.sentence}` : detail;
}

function noticeOf(output: Job["outputs"][number]): string[] {
  if (output.place === "failed") return [`output ${output.name} isn't in its place: ${output.problem}`];
  if (output.place !== "under_way") return [];
  if (output.problem) return [`output ${output.name} isn't in its place yet: ${output.problem}; it is tried again`];
  return [`output ${output.name} is being put in its place`];
}

export function sizeOf(job: Job): string {
  if (job.type !== "command") return job.type;
  if (job.node_count === 1) return counted(job.world_size, "rank");
  return `${counted(job.node_count, "node")}, ${counted(job.world_size, "rank")}`;
}

/** How many nodes an elastic job has, and how many it may have. */
export function elasticOf({ state, elastic, node_count }: Pick<Job, "state" | "elastic" | "node_count">): string {
  if (!elastic) return "";
  const grows = elastic.grow === "at_once" ? "at once" : "at the next checkpoint";
  const now = state === "running" ? `${node_count} now, ` : "";
  return `${now}${elastic.min_nodes} to ${elastic.max_nodes}, ${elastic.nodes} asked for; grows ${grows}`;
}

export interface Phase { state: string; from: string; to: string | null; sentence: string; attempt: number; first: number }

/** The states that a job was in, one after the other, from its story. */
export function phasesOf(story: StoryLine[], endedAt: string | null): Phase[] {
  const phases: Phase[] = [];
  for (const line of story) {
    const last = phases.at(-1);
    if (last && last.state === line.state && last.attempt === line.attempt) {
      last.sentence = line.sentence;
      continue;
    }
    if (last) last.to = line.at;
    phases.push({ state: line.state, from: line.at, to: null, sentence: line.sentence, attempt: line.attempt, first: line.n });
  }
  const last = phases.at(-1);
  if (last && endedAt) last.to = endedAt;
  return phases;
}
