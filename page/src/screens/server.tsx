/** The server: who answers, what it does, what takes space. */

import { useEffect } from "preact/hooks";
import { counted, duration, size } from "../format";
import { useAnswer } from "../hooks";
import { Answered } from "../parts/notes";
import { jobHref } from "../router";
import type { Status, Usage, Version } from "../types";

const MAX_ITEMS = 40;

export function ServerScreen() {
  const version = useAnswer<Version>("/version");
  const status = useAnswer<Status>("/status");
  useEffect(() => {
    const timer = setInterval(status.reload, 5000);
    return () => clearInterval(timer);
  }, []);
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
      <Row label="unfinished">
        {status.unfinished.length ? <>{counted(status.unfinished.length, "job")}: {status.unfinished.slice(0, 8).map((job) => <a key={job} class="row-list" href={jobHref(job)}>{job}</a>)}</> : "no job"}
      </Row>
      {status.publishing.length > 0 && <Row label="outputs">still being put in their places: those of {status.publishing.join(", ")}</Row>}
      {status.others.map((other) => <Row key={other} label="beside">{other}, which goes on with all jobs</Row>)}
      {status.doors.map((door) => <Row key={`${door.address} ${door.port}`} label="agents"><span class="machine">https://{door.address}:{door.port}</span>, certificate until {door.ends.slice(0, 10)}</Row>)}
    </>
  );
}

function Space() {
  const usage = useAnswer<Usage>("/usage");
  return (
    <section class="gap">
      <h2>What takes space</h2>
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
