/** The life of a job as a strip: each state with its time, as wide as it took. */

import { useLayoutEffect, useRef } from "preact/hooks";
import { between, clock, duration, exact } from "../../format";
import { useNow } from "../../hooks";
import { ENDED, StateIcon, tone } from "../../parts/job-state";
import { setQuery } from "../../router";
import type { Job, StoryLine } from "../../types";
import { phasesOf, stagesOf } from "./progress";

export function StateStrip({ job, story }: { job: Job; story: StoryLine[] }) {
  const isLive = !ENDED.has(job.state);
  const now = useNow(isLive);
  const stages = stagesOf(phasesOf(story, job.ended_at));
  const list = useRef<HTMLOListElement>(null);
  // Of a strip that is wider than the window, its end matters.
  useLayoutEffect(() => void (list.current && (list.current.scrollLeft = list.current.scrollWidth)), [stages.length]);
  return (
    <ol class="strip" aria-label="States" ref={list}>
      {stages.map((stage) => {
        const isLast = ENDED.has(stage.state);
        const seconds = between(stage.from, stage.to ?? now);
        const width = isLast ? 0 : Math.min(Math.max(Math.sqrt(seconds), 0.8), 60);
        return (
          <li key={stage.line} class={`tone-${tone(stage.state)}${stage.to || isLast ? "" : " current"}`} style={{ flexGrow: String(width) }}>
            <button type="button" title={`${stage.sentence}\nfrom ${exact(stage.from)}`}
              onClick={() => setQuery({ tab: "story", line: String(stage.line) }, false)}>
              <span class="strip-bar" aria-hidden="true" />
              <span class="strip-word"><StateIcon state={stage.state} /> {stage.name}</span>
              <span class="strip-time">{isLast ? clock(stage.from) : duration(seconds)}</span>
            </button>
          </li>
        );
      })}
    </ol>
  );
}
