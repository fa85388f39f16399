/** The server: who answers, what it does, what takes space. */

import { useEffect, useState } from "preact/hooks";
import { act } from "../api";
import { counted, dated, duration, size } from "../format";
import { useAnswer, useInterval, useRole } from "../hooks";
import { Confirm } from "../parts/dialog";
import { Answered } from "../parts/placeholders";
import { jobHref } from "../router";
import type { Freed, NoticeTarget, Quota, Status, Usage, Uses, Version } from "../types";

const MAX_ITEMS = 40;
const MAX_LISTED = 10;
const INTERVAL_MS = 5000;

export function ServerScreen() {
  const version = useAnswer<Version>("/version");
  const status = useAnswer<Status>("/status");
  useInterval(status.reload, INTERVAL_MS);
  return (
    <div class="screen">
      <h1>Server</h1>
      <Answered answer={version}>
        {(one) => (
          <dl class="facts sheet">
            <Row label="version">{one.version}</Row>
            <Row label="host">{one.host}, process {one.pid}</Row>
            <Row label="files"><span class="machine">{one.home}</span></Row>
            <Row label="address"><span class="machine">{location.origin}</span></Row>
            {status.value && <StatusRows status={status.value} />}
          </dl>
        )}
      </Answered>
      <NoticeTargets />
      <Shares />
      <Space />
    </div>
  );
}

function Row({ label, children }: { label: string; children: preact.ComponentChildren }) {
  return <div><dt>{label}</dt><dd>{children}</dd></div>;
}

function StatusRows({ status }: { status: Status }) {
  return (
    <>
      <Row label="up">{duration(status.uptime_s)}</Row>
      <Row label="stops">{status.idle_stop_s ? `after ${duration(status.idle_stop_s)} with nothing to do` : "never by itself"}</Row>
      <Row label="retains">{status.retain_s ? `jobs for ${duration(status.retain_s)} after their end` : "every job until it is deleted"}</Row>
      <Row label="backed up">{status.backup_at ? dated(status.backup_at, Date.now()) : "never, by drumbeat server backup"}</Row>
      <Row label="unfinished">
        {status.unfinished.length ? <>{counted(status.unfinished.length, "job")}: {status.unfinished.slice(0, 8).map((job) => <a key={job} class="row-list" href={jobHref(job)}>{job}</a>)}</> : "no job"}
      </Row>
      {!!status.unknown_jobs?.length && <Row label="lost">{status.unknown_jobs.slice(0, 8).join(", ")}{status.unknown_jobs.length > 8 && " …"}: submitted after the backup from which this home was restored, and ended; submit them again</Row>}
      {status.publishing.length > 0 && <Row label="outputs">still being put in their places: those of {status.publishing.join(", ")}</Row>}
      {status.others.map((other) => <Row key={other} label="beside">{other}, which goes on with all jobs</Row>)}
      {status.doors.map((door) => <Row key={`${door.address} ${door.port}`} label="agents"><span class="machine">https://{door.address}:{door.port}</span>, certificate until {door.ends.slice(0, 10)}</Row>)}
    </>
  );
}

function NoticeTargets() {
  const targets = useAnswer<NoticeTarget[]>("/notices");
  const isOwner = useRole() === "owner";
  const [said, setSaid] = useState("");
  const test = async (name: string) => {
    setSaid(`${name}: sending…`);
    try {
      await act("POST", `/notices/${encodeURIComponent(name)}/test`);
      setSaid(`${name}: a test notice was delivered`);
    } catch (error) {
      setSaid(`${name}: ${error instanceof Error ? error.message : String(error)}`);
    }
    targets.reload();
  };
  return (
    <section class="gap">
      <h2>Notices</h2>
      <Answered answer={targets}>
        {(some) => some.length === 0 ? <p class="muted">The ends of jobs are reported to nobody yet: <code>drumbeat notice create -f FILE</code> makes a target.</p> : (
          <>
            <div class="scroll" tabIndex={0} role="region" aria-label="Notice targets">
              <table class="plain">
                <thead><tr><th scope="col">Target</th><th scope="col">Jobs</th><th scope="col" class="wide-only">On</th><th scope="col">Last problem</th><th scope="col"><span class="hidden">Actions</span></th></tr></thead>
                <tbody>
                  {some.map((one) => (
                    <tr key={one.name}>
                      <td>{one.name}<span class="under">{one.type} at {one.place}</span></td>
                      <td>{one.jobs === "all" ? "every job" : "jobs that name it"}</td>
                      <td class="muted wide-only">{one.on.join(", ")}</td>
                      <td class={one.problem ? "tone-bad" : "muted"}>{one.problem || "none"}</td>
                      <td class="right">{isOwner && <button type="button" class="quiet" onClick={() => void test(one.name)}>Send a test</button>}</td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
            <p role="status" class="muted">{said}</p>
          </>
        )}
      </Answered>
    </section>
  );
}

/** The quotas and shares of users and experiments. */
function Shares() {
  const uses = useAnswer<Uses>("/quotas/use");
  const quotas = useAnswer<Quota[]>("/quotas");
  const limits = new Map((quotas.value ?? []).map((one) => [`${one.kind} ${one.name}`, one]));
  return (
    <section class="gap">
      <h2>Shares and quotas</h2>
      <Answered answer={uses}>
        {(all) => {
          const sum = all.uses.reduce((total, one) => total + one.recent_use, 0);
          const everyone = limits.get("person *");
          const rows = all.uses.filter((one) => one.slots || one.gpus || one.waiting || one.recent_use || limits.has(`${one.kind} ${one.name}`));
          return (
            <>
              <p class="muted">Of two jobs of equal priority, that of the person with less recent use comes first; use counts half after {duration(all.half_life_s)}. {everyone ? `Everyone may hold ${quota(everyone)}.` : "There is no quota for everyone."}</p>
              {rows.length > 0 && (
                <div class="scroll" tabIndex={0} role="region" aria-label="Shares and quotas">
                  <table class="plain">
                    <thead><tr><th scope="col">Who</th><th scope="col" class="right">Holds now</th><th scope="col" class="right wide-only">Waiting</th><th scope="col" class="right">Recent slot-hours</th><th scope="col" class="wide-only">Quota</th></tr></thead>
                    <tbody>
                      {rows.map((one) => {
                        const limit = limits.get(`${one.kind} ${one.name}`);
                        return (
                          <tr key={`${one.kind} ${one.name}`}>
                            <td>{one.name || "unknown"}<span class="under">{one.kind}</span></td>
                            <td class="right number">{counted(one.slots, "slot")}{one.gpus > 0 && `, ${counted(one.gpus, "GPU")}`}</td>
                            <td class="right number wide-only">{one.waiting || ""}</td>
                            <td class="right number">{one.kind === "person" ? `${one.recent_use.toFixed(1)}${sum ? ` (${Math.round((100 * one.recent_use) / sum)} %)` : ""}` : ""}</td>
                            <td class="muted wide-only">{limit ? quota(limit) : ""}</td>
                          </tr>
                        );
                      })}
                    </tbody>
                  </table>
                </div>
              )}
            </>
          );
        }}
      </Answered>
    </section>
  );
}

function quota(one: Quota): string {
  const limits = [one.slots === null ? "" : counted(one.slots, "slot"), one.gpus === null ? "" : counted(one.gpus, "GPU"), one.waiting === null ? "" : `${counted(one.waiting, "job")} in the queue`];
  return `at most ${limits.filter(Boolean).join(", ") || "what there is"}`;
}

/** Asks whether snapshots that nothing needs are to be deleted, and says before what goes. */
function PruneSnapshots({ onClose }: { onClose: () => void }) {
  const [plan, setPlan] = useState<Freed>();
  const [problem, setProblem] = useState("");
  const prune = (isDry: boolean) => act<Freed>("POST", "/prune", {}, { older_than_s: 0, dry_run: isDry, only: "snapshot" });
  useEffect(() => void prune(true).then(setPlan, (error: Error) => setProblem(error.message)), []);
  const text = problem ? <p class="tone-bad">{problem}</p> : plan === undefined ? <p>Looking what would go…</p> : plan.items.length === 0
    ? <p>Nothing would go. Snapshots that were uploaded within a day stay, as a job that names them may follow.</p>
    : (
      <>
        <p>{counted(plan.items.length, "snapshot")} of code and data that no job and no version needs: {size(plan.total)}.</p>
        <ul class="machine">{plan.items.slice(0, MAX_LISTED).map((one) => <li key={one.name}>{one.name.slice(0, 12)} · {size(one.size)}</li>)}</ul>
        {plan.items.length > MAX_LISTED && <p>and {plan.items.length - MAX_LISTED} more</p>}
      </>
    );
  return <Confirm title="Delete what nothing needs?" text={text} verb="Delete" isGrave isRefused={!plan?.items.length} action={() => prune(false)} onClose={onClose} />;
}

function Space() {
  const usage = useAnswer<Usage>("/usage");
  const isOwner = useRole() === "owner";
  const [isAsking, setAsking] = useState(false);
  return (
    <section class="gap">
      <div class="section-head">
        <h2>What takes space</h2>
        {isOwner && <button type="button" class="quiet" onClick={() => setAsking(true)}>Prune snapshots…</button>}
      </div>
      {isAsking && <PruneSnapshots onClose={() => { setAsking(false); usage.reload(); }} />}
      <Answered answer={usage}>
        {(one) => (
          <>
            <p class="muted">{size(one.total)} in all; {size(one.free)} are free on the disk.</p>
            <dl class="bars">
              {Object.entries(one.totals).filter(([, bytes]) => bytes > 0).sort((a, b) => b[1] - a[1]).map(([kind, bytes]) => (
                <div key={kind}><dt>{kind}</dt><dd><meter min={0} max={one.total || 1} value={bytes} aria-label={`Space of ${kind}`} /> <span class="number">{size(bytes)}</span></dd></div>
              ))}
            </dl>
            <div class="scroll" tabIndex={0} role="region" aria-label="What takes space">
              <table class="plain">
                <thead><tr><th scope="col">What</th><th scope="col">Name</th><th scope="col" class="right">Size</th><th scope="col" class="wide-only">Note</th></tr></thead>
                <tbody>
                  {one.items.slice(0, MAX_ITEMS).map((item) => (
                    <tr key={`${item.kind} ${item.name}`}>
                      <td>{item.kind}</td>
                      <td class="machine">{item.kind === "job" ? <a href={jobHref(item.name)}>{item.name}</a> : item.name.slice(0, 40)}</td>
                      <td class="right number">{size(item.size)}</td>
                      <td class="muted wide-only">{item.note}</td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
          </>
        )}
      </Answered>
    </section>
  );
}
