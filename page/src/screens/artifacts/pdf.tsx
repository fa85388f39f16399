/** A PDF, drawn as pictures of its pages in a frame that has no origin and no network. */

import { useEffect, useRef, useState } from "preact/hooks";
import { counted } from "../../format";
import { Nothing } from "../../parts/placeholders";

const PATIENCE_MS = 30_000;
/** How long the frame may say nothing. */

/** What the frame has said. A reader that a file has taken over may say anything: only numbers and known words are taken. */
interface Said { pages?: number; shown?: number; problem?: "broken" | "password" | "slow"; isDone?: boolean }

function understood(data: unknown): Said {
  const { pages, shown, problem, isDone } = (typeof data === "object" && data ? data : {}) as Record<string, unknown>;
  if (problem === "broken" || problem === "password") return { problem };
  if (Number.isSafeInteger(pages) && Number.isSafeInteger(shown)) return { pages: pages as number, shown: shown as number };
  return isDone === true ? { isDone } : {};
}

export function Pdf({ bytes, name }: { bytes: ArrayBuffer; name: string }) {
  const frame = useRef<HTMLIFrameElement>(null);
  const [said, setSaid] = useState<Said>({});
  useEffect(() => {
    let timer = 0;
    const wait = () => {
      clearTimeout(timer);
      timer = window.setTimeout(() => setSaid({ problem: "slow" }), PATIENCE_MS);
    };
    const listen = ({ source, data }: MessageEvent<unknown>) => {
      if (!frame.current || source !== frame.current.contentWindow) return;
      // The frame has no origin that could be named here.
      if ((data as { isReady?: boolean } | null)?.isReady === true) frame.current.contentWindow!.postMessage(bytes.slice(0), "*");
      const next = understood(data);
      setSaid((before) => ({ ...before, ...next }));
      if (next.isDone || next.problem) clearTimeout(timer);
      else wait();
    };
    addEventListener("message", listen);
    wait();
    return () => {
      clearTimeout(timer);
      removeEventListener("message", listen);
    };
  }, [bytes]);
  if (said.problem) return <Nothing>{PROBLEMS[said.problem]}: download it to look at it.</Nothing>;
  return (
    <>
      <p class="muted" role="status">{said.pages === undefined ? "Loading…" : `${counted(said.pages, "page")}${said.shown! < said.pages ? `, of which the first ${said.shown} are shown` : ""}; links and forms do nothing here`}</p>
      <iframe ref={frame} class="preview-html" sandbox="allow-scripts" src="/ui/pdf-frame" title={name} />
    </>
  );
}

const PROBLEMS = { broken: "It can't be read as PDF", password: "It needs a password", slow: "Its pages take too long to draw" };
