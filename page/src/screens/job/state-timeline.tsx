/** The life of a job: a bar whose parts are as wide as the states lasted, and below it each state with its time. */

import { between, dated, duration, exact, zone } from "../../format";
import { serverNow } from "../../api";
import { useNow } from "../../hooks";
import { ENDED, StateIcon, tone, WAITING } from "../../parts/job-state";
import { setQuery } from "../../router";
import type { Job, StoryLine } from "../../types";
import { phasesOf, sharesOf, stagesOf } from "./progress";

export function StateStrip({ job, story }: { job: Job; story: StoryLine[] }) {
  const isLive = !ENDED.has(job.state);
  const now = useNow(isLive);
  const stages = stagesOf(phasesOf(story, job.ended_at));
  const lasting = stages.filter((stage) => !ENDED.has(stage.state));
  const shares = sharesOf(lasting.map((stage) => between(stage.from, stage.to ?? now)));
  return (
    <div class="strip">
      <div class="strip-bars" aria-hidden="true">
        {lasting.map((stage, n) => {
          const current = isLive && !stage.to ? (WAITING.has(stage.state) ? " awaits" : " current") : "";
          return (
            <span key={stage.line} class={`strip-bar tone-${tone(stage.state)}${current}`} style={{ flexGrow: String(shares[n]) }}
              title={`${stage.name}: ${duration(between(stage.from, stage.to ?? now))}`} />
          );
        })}
      </div>
      <ol aria-label="States">
        {stages.map((stage) => {
          const isEnd = ENDED.has(stage.state);
          return (
            <li key={stage.line} class={`tone-${tone(stage.state)}`}>
              <button type="button" title={`${stage.sentence}\n${isEnd ? "at" : "from"} ${exact(stage.from)} ${zone(stage.from)}`}
                onClick={() => setQuery({ tab: "story", line: String(stage.line) }, false)}>
                <StateIcon state={stage.state} /> <span class="strip-word">{stage.name}</span>{" "}
                <span class="strip-time">{isEnd ? `at ${dated(stage.from, serverNow())}` : duration(between(stage.from, stage.to ?? now))}</span>
              </button>
            </li>
          );
        })}
        {story[0] && <li class="strip-zone muted" title="Of all times on this page">times in {zone(story[0].at)}</li>}
      </ol>
    </div>
  );
}
