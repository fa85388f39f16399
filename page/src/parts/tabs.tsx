/** Tabs whose choice stands in the address. */

import { setQuery } from "../router";
import { useKey } from "../keys";

export interface Tab { id: string; label: string; count?: number | undefined }

export function Tabs({ tabs, chosen, name = "tab", label }: {
  tabs: Tab[]; chosen: string; name?: string; label: string;
}) {
  const choose = (id: string) => setQuery({ [name]: id === tabs[0]?.id ? "" : id }, false);
  const step = (by: number) => {
    const at = tabs.findIndex((tab) => tab.id === chosen);
    const next = tabs[(at + by + tabs.length) % tabs.length];
    if (next) choose(next.id);
    requestAnimationFrame(() => document.querySelector<HTMLElement>("[role=tab][aria-selected=true]")?.focus());
  };
  useKey("[", "The tab before", () => step(-1));
  useKey("]", "The next tab", () => step(1));
  return (
    <div class="tabs" role="tablist" aria-label={label}>
      {tabs.map((tab) => (
        <button type="button" role="tab" key={tab.id} id={`tab-${tab.id}`} aria-selected={tab.id === chosen}
          aria-controls="tab-panel" tabIndex={tab.id === chosen ? 0 : -1} onClick={() => choose(tab.id)}
          onKeyDown={(event) => {
            if (event.key === "ArrowRight") step(1);
            if (event.key === "ArrowLeft") step(-1);
          }}>
          {tab.label}
          {tab.count ? <span class="count">{tab.count}</span> : null}
        </button>
      ))}
    </div>
  );
}
