/** Sentences and numbers of a job, as the terminal says them. */

import { counted, number, whole } from "../../format";
import { ENDED } from "../../parts/job-state";
import { bestOf } from "../../parts/primary-metric";
import type { Job, NotFinite, StoryLine } from "../../types";

const TRANSFERRING = new Set(["staging", "finalizing"]);

/** What happens now: a node's progress with inputs or outputs, what holds outputs up, or the job's sentence. */
export function progressOf(job: Job): string {
  const notices = job.outputs.flatMap(noticeOf);
  if (notices.length) return [job.sentence, ...notices].join("; ");
  const reporting = job.nodes.filter((node) => node.detail && !node.error && !node.lost);
  const node = reporting.find((one) => one.detail.includes("waits")) ?? reporting[0];
  if (job.state === "running" && job.reason === "training" && job.primary) {
    return `training; ${job.primary.name} is ${number(job.primary.value)} at step ${whole(job.primary.step)}`;
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
  return `${counted(job.node_count, "node")}, ${counted(job.world_size, "rank")}`;
}

const PLAIN = /^\d+ ranks? ended with exit code 0$/;

/** Whether the sentence says no more than the state `completed` does. */
export const isPlain = (state: string | null, sentence: string): boolean => state === "completed" && PLAIN.test(sentence);

/** The sentence of a job's page: of a completed one what its metric came to, where its own says no more than its state. */
export function headlineOf(job: Job): string {
  const sentence = progressOf(job);
  if (!job.primary || !isPlain(job.state, sentence)) return sentence;
  const best = bestOf(job.primary);
  return `${job.primary.name} ${number(job.primary.value)} at step ${whole(job.primary.step)}${best && `; ${best}`}`;
}

/** What a list says of a job beside its state; "" = the state says it all. */
export function wordOf(job: Job): string {
  const word = progressOf(job);
  return isPlain(job.state, word) ? "" : word;
}

/** How many nodes an elastic job has, and how many it may have. */
export function elasticOf({ state, elastic, node_count }: Pick<Job, "state" | "elastic" | "node_count">): string {
  if (!elastic) return "";
  const allowed = `${elastic.min_nodes} to ${elastic.max_nodes} allowed, ${elastic.nodes} asked for`;
  if (ENDED.has(state)) return allowed;
  const now = state === "running" ? `${node_count} now, ` : "";
  if (now && node_count >= elastic.max_nodes) return `${now}${allowed}`;
  return `${now}${allowed}; grows ${elastic.grow === "at_once" ? "as soon as nodes are free" : "after a checkpoint"}`;
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

const MAX_PHASES = 8;
/** The states of so many fit on a laptop's screen. */

const ATTEMPT = "attempt";

export interface Stage { name: string; state: string; from: string; to: string | null; sentence: string; line: number }

/** What the strip shows: every state of a short story; of a long one, each earlier attempt as one. */
export function stagesOf(phases: Phase[]): Stage[] {
  // The wait before the first attempt belongs to it.
  const attemptOf = (phase: Phase): number => Math.max(phase.attempt, 1);
  const present = Math.max(phases.at(-1)?.attempt ?? 0, 1);
  const stages: Stage[] = [];
  let merged = 0;
  for (const phase of phases) {
    const last = stages.at(-1);
    if (phases.length > MAX_PHASES && attemptOf(phase) !== present) {
      if (last && merged === attemptOf(phase)) Object.assign(last, { to: phase.to, sentence: phase.sentence, state: ATTEMPT });
      else stages.push({ ...stageOf(phase), name: `attempt ${attemptOf(phase)}`, state: ATTEMPT });
      merged = attemptOf(phase);
    } else stages.push(stageOf(phase));
  }
  return stages;
}

const LEAST_SHARE = 0.004;
/** Of the bar: what lasted less can still be seen, and pointed at. */

/** How wide each state is drawn, of 1 in all: as long as it lasted. */
export function sharesOf(seconds: number[]): number[] {
  const whole = seconds.reduce((sum, one) => sum + Math.max(one, 0), 0);
  return seconds.map((one) => (whole > 0 ? Math.max(one / whole, LEAST_SHARE) : 1 / seconds.length));
}

const stageOf = ({ state, from, to, sentence, first }: Phase): Stage => ({ name: state, state, from, to, sentence, line: first });

export const notFiniteOf = (lost: NotFinite): string => `${lost.name} is ${lost.value} since step ${whole(lost.since_step)}`;
