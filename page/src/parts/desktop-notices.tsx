/** Notices on the desktop: one for each job that ends while a tab with the page is open. */

import { useEffect, useState } from "preact/hooks";
import { serverNow } from "../api";
import { useEvents } from "../hooks";
import { go, jobHref } from "../router";
import { stream } from "../stream";
import type { Job } from "../types";
import { ENDED } from "./job-state";

const CHOICE = "drumbeat-desktop-notices";
const RECENT_MS = 120_000;

const shown = new Set<string>();

/** Whether a change of a job is an end that is shown: once, soon after it, and not of trials and steps. */
export function isNews(job: Pick<Job, "name" | "state" | "parent" | "ended_at">, now: number, earlier: ReadonlySet<string>): boolean {
  const at = job.ended_at ? Date.parse(job.ended_at) : NaN;
  return ENDED.has(job.state) && !job.parent && Math.abs(now - at) < RECENT_MS && !earlier.has(`${job.name} ${job.ended_at}`);
}

function wanted(): boolean {
  try {
    return localStorage.getItem(CHOICE) === "on" && "Notification" in window && Notification.permission === "granted";
  } catch {
    return false;
  }
}

function choose(isOn: boolean): void {
  try {
    localStorage.setItem(CHOICE, isOn ? "on" : "off");
  } catch {
    // A browser without storage forgets the choice with the tab.
  }
}

/** Keeps the stream of one tab open in the background: a browser has six connections to a server, and each stream takes one. */
function useBackground(isOn: boolean): void {
  useEffect(() => {
    if (!isOn) return undefined;
    const control = new AbortController();
    const isOver = new Promise((resolve) => control.signal.addEventListener("abort", resolve));
    const stay = () => {
      stream.stayOpen(true);
      return isOver;
    };
    navigator.locks.request(CHOICE, { signal: control.signal }, stay).catch(() => undefined);
    return () => {
      control.abort();
      stream.stayOpen(false);
    };
  }, [isOn]);
}

export function DesktopNotices() {
  const [isOn, setOn] = useState(wanted);
  useBackground(isOn);
  useEvents("jobs", (event) => {
    if (!isOn) return;
    for (const job of event.jobs.filter((one) => isNews(one, serverNow(), shown))) {
      shown.add(`${job.name} ${job.ended_at}`);
      notify(job);
    }
  });
  if (!("Notification" in window)) return null;
  const toggle = async () => {
    const isWanted = !isOn && (Notification.permission === "granted" || (await Notification.requestPermission()) === "granted");
    choose(isWanted);
    setOn(isWanted);
  };
  const words = isOn ? "Desktop notices are on: one for each job that ends" : "Show a desktop notice when a job ends";
  return (
    <button type="button" class="quiet bell" aria-pressed={isOn} aria-label={words} title={words} onClick={() => void toggle()}>
      <svg viewBox="0 0 16 16" width="16" height="16" aria-hidden="true">
        <path fill={isOn ? "currentColor" : "none"} stroke="currentColor" stroke-width="1.4" stroke-linejoin="round"
          d="M8 2a4 4 0 0 0-4 4v2.6L2.8 11.2h10.4L12 8.6V6a4 4 0 0 0-4-4ZM6.6 13.2a1.5 1.5 0 0 0 2.8 0" />
      </svg>
    </button>
  );
}

function notify(job: Job): void {
  let notice: Notification;
  try {
    notice = new Notification(`${job.display_name || job.name} ${job.state}`, { body: job.sentence, tag: job.name });
  } catch {
    return; // Chromium on phones has notices of service workers only.
  }
  notice.onclick = () => {
    focus();
    go(jobHref(job.name));
    notice.close();
  };
}
