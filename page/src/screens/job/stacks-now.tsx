/** What the ranks of a job do at this moment: those with equal stacks together, the odd ones first. */

import { useState } from "preact/hooks";
import { segment } from "../../api";
import { clock, counted } from "../../format";
import { useAnswer } from "../../hooks";
import { Refused } from "../../parts/placeholders";
import type { NodeStacks } from "../../types";

export interface StackGroup { ranks: number[]; doing: string; stack: string }

/** The ranks by what their Python programs do, the smallest groups first. */
export function groupsOf(nodes: NodeStacks[]): StackGroup[] {
  const groups = new Map<string, StackGroup>();
  for (const { rank, doing, processes } of nodes.flatMap((node) => node.ranks)) {
    const main = processes.find((one) => !one.is_helper && one.threads.length) ?? processes[0];
    const stack = (main?.threads[0]?.frames ?? []).map((frame) => `${frame.function} (${frame.file}:${frame.line})`).join("\n");
    const group = groups.get(stack) ?? { ranks: [], doing, stack };
    group.ranks.push(rank);
    groups.set(stack, group);
  }
  return [...groups.values()].sort((a, b) => a.ranks.length - b.ranks.length || a.ranks[0]! - b.ranks[0]!);
}

/** `0–3, 7`: ranks that follow each other are a range. */
export function rangesOf(ranks: number[]): string {
  const ranges: [number, number][] = [];
  for (const rank of [...ranks].sort((a, b) => a - b)) {
    const last = ranges.at(-1);
    if (last && rank === last[1] + 1) last[1] = rank;
    else ranges.push([rank, rank]);
  }
  return ranges.map(([from, to]) => (from === to ? String(from) : `${from}–${to}`)).join(", ");
}

export function StacksNow({ job }: { job: string }) {
  const [asked, setAsked] = useState(0);
  const answer = useAnswer<NodeStacks[]>(asked ? `/jobs/${segment(job)}/stacks` : undefined);
  const look = () => {
    if (asked) answer.reload();
    setAsked(Date.now());
  };
  const silent = (answer.value ?? []).filter((node) => node.error);
  return (
    <div class="stacks-now">
      <button type="button" onClick={look}>{asked ? "Look again" : "Stacks now"}</button>
      {asked > 0 && !answer.value && !answer.error && <p class="muted loading">Asking the nodes…</p>}
      {answer.error && <Refused error={answer.error} />}
      {answer.value && (
        <>
          <p class="muted">Seen at {clock(asked)}</p>
          {silent.map((node) => <p key={node.node} class="not-finite">node {node.node} ({node.host}): {node.error}</p>)}
          {groupsOf(answer.value).map((group, n) => (
            <details key={group.stack} open={n === 0}>
              <summary>{counted(group.ranks.length, "rank")} ({rangesOf(group.ranks)}) {group.doing}</summary>
              <pre class="machine tail" tabIndex={0}>{group.stack || "no stack could be read"}</pre>
            </details>
          ))}
        </>
      )}
    </div>
  );
}
