/** The life of a job as a strip: each state with its time, as wide as it took. */

import { between, clock, duration, exact } from "../../format";
import { useNow } from "../../hooks";
import { ENDED, StateIcon, tone } from "../../parts/state";
import { setQuery } from "../../router";
import type { Job, StoryLine } from "../../types";
import { phasesOf } from "./facts";

const MAX_PHASES = 24;

export function StateStrip({ job, story }: { job: Job; story: StoryLine[] }) {
  const isLive = !ENDED.has(job.state);
  const now = useNow(isLive);
  const phases = phasesOf(story, job.ended_at).slice(-MAX_PHASES);
  return (
    <ol class="strip" aria-label="States">
      {phases.map((phase) => {
        const isLast = ENDED.has(phase.state);
        const seconds = between(phase.from, phase.to ?? now);
        const width = isLast ? 0 : Math.min(Math.max(Math.sqrt(seconds), 0.8), 60);
        return (
          <li key={phase.first} class={`tone-${tone(phase.state)}${phase.to || isLast ? "" : " current"}`} style={{ flexGrow: String(width) }}>
            <button type="button" title={`${phase.sentence}\nfrom ${exact(phase.from)}`}
              onClick={() => setQuery({ tab: "story", line: String(phase.first) }, false)}>
              <span class="strip-bar" aria-hidden="true" />
              <span class="strip-word"><StateIcon state={phase.state} /> {phase.state}</span>
              <span class="strip-time">{isLast ? clock(phase.from) : duration(seconds)}</span>
            </button>
          </li>
        );
      })}
    </ol>
  );
}
