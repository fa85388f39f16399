/** Schedules: when each submits its job, its last and next runs, and whether it is enabled. */

import { useState } from "preact/hooks";
import { act, segment, type ApiError } from "../api";
import { exact } from "../format";
import { useAnswer, useEvents, useMayAct, useThrottled } from "../hooks";
import { Answered, Nothing, Refused } from "../parts/placeholders";
import { Ago } from "../parts/time";
import { jobHref } from "../router";
import type { Schedule } from "../types";

export function SchedulesScreen() {
  const answer = useAnswer<Schedule[]>("/schedules");
  const reload = useThrottled(answer.reload, 1000);
  useEvents("jobs", reload);
  const [refused, setRefused] = useState<ApiError>();
  const mayAct = useMayAct();
  const change = (one: Schedule) =>
    void act("POST", `/schedules/${segment(one.name)}/${one.is_enabled ? "disable" : "enable"}`)
      .then(() => setRefused(undefined), setRefused)
      .finally(answer.reload);
  return (
    <div class="screen">
      <h1>Schedules</h1>
      {refused && <Refused error={refused} />}
      <Answered answer={answer}>
        {(all) => all.length === 0 ? <Nothing>No schedule. <code>drumbeat schedule create -f schedule.yml</code> submits a job again and again.</Nothing> : (
          <div class="scroll" tabIndex={0} role="region" aria-label="Schedules">
            <table class="plain">
              <thead><tr><th scope="col">Schedule</th><th scope="col">Times</th><th scope="col">Last run</th><th scope="col">Next run</th><th scope="col"><span class="hidden">Actions</span></th></tr></thead>
              <tbody>
                {all.map((one) => (
                  <tr key={one.name}>
                    <td>{one.display_name || one.name}<span class="under">{one.name}{one.user && `, of ${one.user}`}</span></td>
                    <td>{one.title}{one.problem && <span class="under tone-bad">{one.problem}</span>}</td>
                    <td>{one.last_job ? <><a href={jobHref(one.last_job)}>{one.last_job}</a><span class="under"><Ago at={one.last_run} /></span></> : <span class="muted">none yet</span>}</td>
                    <td>{one.next_run ? exact(one.next_run) : <span class="muted">{one.is_enabled ? "none any more" : "disabled"}</span>}</td>
                    <td class="right">{mayAct && <button type="button" aria-label={`${one.is_enabled ? "Disable" : "Enable"} ${one.name}`} onClick={() => change(one)}>{one.is_enabled ? "Disable" : "Enable"}</button>}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        )}
      </Answered>
    </div>
  );
}
