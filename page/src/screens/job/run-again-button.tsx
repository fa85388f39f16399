/** The button that opens the form of a job that is run again; its code comes when it is pressed. */

import { useState } from "preact/hooks";
import { useMayAct } from "../../hooks";
import { late } from "../../parts/late";
import type { Earlier } from "./run-again";

export function RunAgain({ job, label = "Run again…" }: { job: Earlier; label?: string }) {
  const [isOpen, setOpen] = useState(false);
  if (!useMayAct()) return null;
  return (
    <>
      <button type="button" onClick={() => setOpen(true)}>{label}</button>
      {isOpen && <LateDialog job={job} onClose={() => setOpen(false)} />}
    </>
  );
}

const LateDialog = late<{ job: Earlier; onClose: () => void }>(() => import("./run-again").then((one) => one.RunAgainDialog), null);
