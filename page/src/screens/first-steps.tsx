/** What a server without jobs shows: the commands to begin with, which work as they stand. */

import { CopyButton } from "../parts/copy-button";
import { href } from "../router";

interface Step {
  what: string;
  command: string;
}

const HERE = ["localhost", "127.0.0.1", "[::1]"];

/** The first steps; a browser on another machine than the server's begins by signing in. */
export function firstSteps(origin: string, hostname: string): Step[] {
  const steps = [
    { what: "Try it, in any folder", command: "drumbeat run --procs 2 --set code=null -- 'echo \"rank $RANK of $WORLD_SIZE\"'" },
    { what: "Write a job file for your script, beside it", command: "drumbeat init train.py" },
    { what: "Run it, and follow it here", command: "drumbeat run job.yml" },
  ];
  return HERE.includes(hostname) ? steps : [{ what: "Sign in from your machine", command: `drumbeat login ${origin}` }, ...steps];
}

export function FirstSteps() {
  return (
    <section class="note first-steps">
      <h2>No jobs yet</h2>
      <p class="muted">Type these in a terminal; a job appears here at once.</p>
      <ol>
        {firstSteps(location.origin, location.hostname).map(({ what, command }) => (
          <li key={command}>
            <p>{what}</p>
            <div class="command"><code tabIndex={0}>{command}</code><CopyButton text={command} /></div>
          </li>
        ))}
      </ol>
      <p>More in the <a href={href("/docs")}>documentation</a>: <a href={href("/docs/jobfile")}>job files</a>, <a href={href("/docs/sweeps")}>sweeps</a>, <a href={href("/docs/computes")}>computes</a>.</p>
    </section>
  );
}
