/** Experiments: groups of jobs, with how many they have and when the last came. */

import { useState } from "preact/hooks";
import { act, ApiError } from "../api";
import { counted } from "../format";
import { useAnswer, useEvents, useMayAct, useThrottled } from "../hooks";
import { Answered, Nothing, Refused } from "../parts/placeholders";
import { Ago } from "../parts/time";
import { experimentHref, href, setQuery, usePlace } from "../router";
import type { Experiment } from "../types";

const INTERVAL_MS = 5000;

export function ExperimentsScreen() {
  const { query } = usePlace();
  const isArchived = query.has("archived");
  const answer = useAnswer<Experiment[]>("/experiments", { archived: isArchived ? "all" : "false" });
  useEvents("jobs", useThrottled(answer.reload, INTERVAL_MS));
  useEvents("again", answer.reload);
  const mayAct = useMayAct();
  const [refused, setRefused] = useState<ApiError>();
  const move = async (experiment: Experiment) => {
    setRefused(undefined);
    try {
      await act("POST", `/experiments/${experiment.archived ? "restore" : "archive"}`, { name: experiment.name });
    } catch (error) {
      setRefused(error instanceof ApiError ? error : new ApiError(0, String(error)));
    }
    answer.reload();
  };
  return (
    <div class="screen">
      <h1>Experiments</h1>
      <div class="filters">
        <label class="check">
          <input type="checkbox" checked={isArchived} onChange={(event) => setQuery({ archived: event.currentTarget.checked ? "1" : "" })} />
          archived too
        </label>
      </div>
      {refused && <Refused error={refused} />}
      <Answered answer={answer}>
        {(experiments) => experiments.length ? <Table experiments={experiments} move={mayAct ? move : undefined} />
          : <Nothing>No experiment yet. A job names its own with <code>experiment_name</code>.</Nothing>}
      </Answered>
    </div>
  );
}

function Table({ experiments, move }: { experiments: Experiment[]; move: ((one: Experiment) => void) | undefined }) {
  return (
    <table class="plain">
      <thead>
        <tr>
          <th scope="col">Experiment</th><th scope="col" class="right">Jobs</th><th scope="col" class="right">Last job</th>
          <th scope="col" class="right wide-only">Created</th><th scope="col"><span class="hidden">Actions</span></th>
        </tr>
      </thead>
      <tbody>
        {experiments.map((one) => (
          <tr key={one.id}>
            <td>
              <a class="row-link" href={experimentHref(one.name)}>{one.name}</a>
              {one.archived && <span class="tag">archived</span>}
              {one.names.length > 1 && <span class="under">earlier {one.names.filter((name) => name !== one.name).join(", ")}</span>}
            </td>
            <td class="right number"><a href={href("/", { experiment: one.name })}>{counted(one.jobs, "job")}</a></td>
            <td class="right"><Ago at={one.latest_at} /></td>
            <td class="right muted wide-only"><Ago at={one.created_at} /></td>
            <td class="right">{move && <button type="button" class="quiet" onClick={() => move(one)}>{one.archived ? "Restore" : "Archive"}</button>}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
