/** Nodes and ranks: how far each is, how it ended, which failed first. */

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { segment } from "../../api";
import { cores, counted, whole } from "../../format";
import { useAnswer, useInterval, useJobEvents, useThrottled } from "../../hooks";
import { Nothing } from "../../parts/placeholders";
import { ENDED, StateIcon } from "../../parts/job-state";
import { jobHref } from "../../router";
import type { Exit, Job, JobNode, Metrics, Preflight, Series, StoryLine } from "../../types";
import { groupsOf, nodeState, rangesOf, SHOWN_NODES } from "./node-groups";
import { PreflightCard } from "./preflight";
import { hangOf, slowOf, startOf, type Hang } from "./hang-and-start";
import { stepsOf, type RankSteps } from "./rank-steps";
import { busiestOf, comparedCores } from "./slow-rank";

const SIGTERM = 15;
const PREFLIGHT_MS = 10_000;
const INTERVAL_MS = 5000;
/** So many nodes of a group in which something is wrong are shown at once. */
const SHOWN_ODD = 4;
/** Begins what a node says of its ranks while they do nothing but run; for those who look for a fault of its kernel. */
const CONFINED = "ranks held by: ";

export function RanksTab({ job, story }: { job: Job; story: StoryLine[] }) {
  const metrics = useAnswer<Metrics>(`/jobs/${segment(job.name)}/metrics`);
  const reload = useThrottled(metrics.reload, 2000);
  useJobEvents(job.name, "state", reload);
  useInterval(() => ENDED.has(job.state) || metrics.reload(), INTERVAL_MS);
  if (job.nodes.length === 0) return <Nothing>No node has been given to this job yet.</Nothing>;
  const series = metrics.value?.series ?? [];
  const steps = stepsOf(series);
  const busiest = busiestOf(job, comparedCores(series));
  const slow = slowOf(job, story)?.ranks ?? (busiest === undefined ? [] : [busiest]);
  const hang = hangOf(job, story);
  const card = (node: JobNode) => (
    <NodeCard key={node.node} job={job} node={node} steps={steps} series={series} slow={slow}
      start={startOf(story, node.node)} hang={hang} />
  );
  return (
    <>
      {job.nodes.length > SHOWN_NODES
        ? <NodeGroups job={job} odd={oddRanks(slow, hang, steps)} card={card} />
        : <div class="nodes">{job.nodes.map(card)}</div>}
      {job.node_count > 1 && <OwnPreflight job={job} />}
    </>
  );
}

function oddRanks(slow: number[], hang: Hang | undefined, steps: Map<number, RankSteps>): number[] {
  const behind = [...steps].filter(([, one]) => one.behind).map(([rank]) => rank);
  return [...slow, ...behind, ...(hang?.rank === undefined ? [] : [hang.rank])];
}

/** Nodes that are alike in one card each; a few of the odd ones are open, the others on demand. */
function NodeGroups({ job, odd, card }: { job: Job; odd: number[]; card: (node: JobNode) => ComponentChildren }) {
  const [open, setOpen] = useState<Record<string, boolean>>({});
  const groups = groupsOf(job, odd, (exit) => stateOf(job, exit)[1]);
  return (
    <>
      {groups.map((group) => {
        const isOpen = open[group.key] ?? group.isOdd;
        const first = group.nodes.slice(0, isOpen ? (group.isOdd ? SHOWN_ODD : SHOWN_NODES) : 0);
        return (
          <section key={group.key} class="card node-group" aria-label={`${counted(group.nodes.length, "node")} ${group.state}`}>
            <header>
              <h2>{group.nodes.length === 1 ? "1 node" : `${whole(group.nodes.length)} nodes`}</h2>
              <span class="muted">{rangesOf(group.nodes.map((one) => one.node))}</span>
              <span class={`tag${group.isOdd ? " tone-bad" : ""}`}>{group.state}</span>
              <button type="button" class="quiet" aria-expanded={isOpen} onClick={() => setOpen({ ...open, [group.key]: !isOpen })}>
                {isOpen ? "Fold" : `Show ${group.nodes.length > SHOWN_NODES ? `the first ${SHOWN_NODES}` : "them"}`}
              </button>
            </header>
            {group.word && <p class={group.isOdd ? "tone-bad" : "muted"}>{group.word}</p>}
            {group.ends && <p class="muted">{group.ends}</p>}
            {first.length > 0 && <div class="nodes">{first.map(card)}</div>}
          </section>
        );
      })}
    </>
  );
}

/** The job with its story has the pre-flight; what events bring of it has not. */
function OwnPreflight({ job }: { job: Job }) {
  const answer = useAnswer<{ preflight?: Preflight | null }>(`/jobs/${segment(job.name)}`, {}, true);
  useJobEvents(job.name, "state", useThrottled(answer.reload, PREFLIGHT_MS));
  return answer.value?.preflight ? <PreflightCard preflight={answer.value.preflight} /> : null;
}

function NodeCard({ job, node, steps, series, slow, start, hang }: {
  job: Job; node: JobNode; steps: Map<number, RankSteps>; series: Series[]; slow: number[];
  start: string; hang: Hang | undefined;
}) {
  const ranks = ranksOf(job, node.node);
  const state = nodeState(node);
  const detail = node.detail.startsWith(CONFINED) ? "" : node.detail;
  return (
    <section class="card" aria-label={`Node ${node.node}`}>
      <header>
        <h2>Node {node.node}</h2>
        <span class="muted">{[node.machine, node.host, node.address].filter((word, n, all) => word && all.indexOf(word) === n).join(" · ")}</span>
        <span class={`tag${node.lost ? " tone-bad" : ""}`}>{state}</span>
      </header>
      {(node.error || detail) && <p class={node.error ? "tone-bad" : "muted"}>{node.error || detail}</p>}
      {start && <p class="muted">{start}</p>}
      <ul class="ranks">
        {ranks.map((rank) => (
          <RankTile key={rank} job={job} rank={rank} exit={node.exits.find((one) => one.rank === rank)}
            steps={steps.get(rank)} isSlow={slow.includes(rank)} hangs={hang?.rank === rank ? hang.word : undefined} cpu={series.find((one) => one.rank === rank && one.name.startsWith("system/cpu"))} />
        ))}
      </ul>
      <p class="under"><a href={jobHref(job.name, { node: String(node.node), rank: "node" })}>The node's own log</a></p>
    </section>
  );
}

function ranksOf(job: Job, node: number): number[] {
  const first = node * job.processes_per_node;
  const count = Math.max(0, Math.min(job.processes_per_node, job.world_size - first));
  return Array.from({ length: count }, (_, n) => first + n);
}

function RankTile({ job, rank, exit, steps, isSlow, hangs, cpu }: {
  job: Job; rank: number; exit: Exit | undefined; steps: RankSteps | undefined; isSlow: boolean;
  hangs: string | undefined; cpu: Series | undefined;
}) {
  const isCause = job.verdict?.rank === rank && job.state === "failed";
  const behind = exit ? undefined : steps?.behind;
  const isBehind = behind !== undefined;
  const [state, word] = stateOf(job, exit);
  return (
    <li>
      <a class={`rank${isCause ? " cause-rank" : hangs || isBehind || isSlow ? " slow-rank" : ""}`} href={jobHref(job.name, { rank: String(rank), at: isCause ? "failure" : undefined })}>
        <span class="rank-name"><StateIcon state={state} /> rank {rank}</span>
        <span class="rank-word">{isCause ? `failed first: ${word}` : hangs ? `the others wait: it ${hangs}` : isBehind || isSlow ? `${word}, slow` : word}</span>
        {steps && <span class="rank-word">step {behind ? `${whole(behind.step)}, behind the others' ${whole(behind.furthest)}` : whole(steps.step)}</span>}
        {cpu && !exit && <span class="rank-word">uses {cores(cpu.last.value)} cores</span>}
      </a>
    </li>
  );
}

function stateOf(job: Job, exit: Exit | undefined): [string, string] {
  if (!exit) return ENDED.has(job.state) ? [job.state === "completed" ? "completed" : "canceled", job.state] : [job.state, job.state];
  // The others are ended when one has failed: that is no failure of theirs.
  if (exit.signal === SIGTERM && job.verdict?.rank !== exit.rank) return ["canceled", "stopped afterwards"];
  if (exit.signal) return ["failed", `signal ${exit.signal}`];
  return exit.code === 0 ? ["completed", "exit 0"] : ["failed", `exit ${exit.code}`];
}
