/** What a deletion would delete, before anything is: sizes, what is kept and why, and what can go too. */

import { useEffect, useState } from "preact/hooks";
import { act, ApiError, get, segment } from "../../api";
import { counted, size } from "../../format";
import { Confirm } from "../../parts/dialog";
import { Refused } from "../../parts/placeholders";
import type { Freed, Job, KeptItem } from "../../types";
import type { Acted } from "./actions";

/** The path of a registered version such as `data cifar:1`; undefined = the page can't delete such. */
export function pathOf(asset: string): string | undefined {
  const match = /^(data|model) (.+):([^:]+)$/.exec(asset);
  return match ? `/${match[1] === "data" ? "data" : "models"}/${segment(match[2]!)}/versions/${segment(match[3]!)}` : undefined;
}

/** `3.1 MiB: outputs 2.0 MiB, logs 1.1 MiB`. */
export function sizesOf(freed: Freed): string {
  const parts = new Map<string, number>();
  for (const item of freed.items) {
    const own = Object.entries(item.parts).length ? Object.entries(item.parts) : [[item.kind === "snapshot" ? "code" : item.kind, item.size] as const];
    for (const [kind, bytes] of own) parts.set(kind, (parts.get(kind) ?? 0) + bytes);
  }
  const named = [...parts].filter(([, bytes]) => bytes > 0).sort((a, b) => b[1] - a[1]).map(([kind, bytes]) => `${kind} ${size(bytes)}`);
  return named.length ? `${size(freed.total)}: ${named.join(", ")}` : size(freed.total);
}

const PARTS: Record<Job["type"], string> = { sweep: "trial", pipeline: "step", deployment: "replica", command: "part" };

export function DeletionDialog({ jobs, action, onClose }: { jobs: Acted[]; action: () => Promise<unknown>; onClose: () => void }) {
  const [plan, setPlan] = useState<Freed>();
  const [error, setError] = useState<ApiError>();
  const [too, setToo] = useState<ReadonlySet<string>>(new Set());
  useEffect(() => {
    get<Freed>("/deletion-plan", { job: jobs.map((job) => job.name) }).then(setPlan, setError);
  }, []);
  const toggle = (asset: string) => setToo((before) => {
    const all = new Set(before);
    if (!all.delete(asset)) all.add(asset);
    return all;
  });
  const names = new Set(jobs.map((job) => job.name));
  const others = (plan?.items ?? []).filter((item) => item.kind === "job" && !names.has(item.name)).length;
  const canGo = plan && (plan.items.some((item) => item.kind === "job") || plan.kept.some((one) => too.has(one.asset)));
  return (
    <Confirm title={`Delete ${jobs.length === 1 ? jobs[0]!.name : counted(jobs.length, "job")}?`} verb="Delete" isGrave isRefused={!error && !canGo}
      text={(
        <>
          {!plan && !error && <p class="muted loading">Looking at what would go…</p>}
          {error && <Refused error={error} />}
          {plan && plan.items.length > 0 && <p>{sizesOf(plan)}{others > 0 && `, with ${counted(others, PARTS[jobs[0]!.type])}`}. This can't be undone.</p>}
          {plan && plan.kept.length > 0 && <ul class="kept">{plan.kept.map((one) => <Kept key={one.what} one={one} isChosen={too.has(one.asset)} toggle={toggle} />)}</ul>}
        </>
      )}
      action={async () => {
        for (const asset of too) await act("DELETE", pathOf(asset)!);
        await action();
      }}
      onClose={onClose} />
  );
}

function Kept({ one, isChosen, toggle }: { one: KeptItem; isChosen: boolean; toggle: (asset: string) => void }) {
  const path = one.asset && pathOf(one.asset);
  return (
    <li>
      {one.what} stays: {one.why}{path ? "" : one.fix && `. ${one.fix}`}
      {path && <label class="check"><input type="checkbox" checked={isChosen} onChange={() => toggle(one.asset)} /> delete {one.asset} too</label>}
    </li>
  );
}
