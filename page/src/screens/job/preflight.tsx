/** What the nodes measured of each other before the ranks started: one row and one column for each node. */

import { latency, rate } from "../../format";
import type { Link, NodePreflight, Preflight } from "../../types";

const SLOW = 0.25;
/** A link below this share of the fastest one is marked, where the nodes found something wrong. */

interface Measured { rate: number; roundTrip: number; error: string }

/** What is known of the way from one node to another; both of its ends may have measured it. */
export function wayOf(links: Link[], from: number, to: number): Measured | undefined {
  const own = links.find((one) => one.node === from && one.peer === to);
  const other = links.find((one) => one.node === to && one.peer === from);
  if (!own && !other) return undefined;
  const rates = [own?.out_bits_per_s, other?.in_bits_per_s].filter((one): one is number => one !== undefined && one >= 0);
  const times = [own, other].map((one) => one?.round_trip_us).filter((one): one is number => one !== undefined && one >= 0);
  return { rate: Math.max(-1, ...rates), roundTrip: times.length ? Math.min(...times) : -1, error: own?.error ?? "" };
}

export function PreflightCard({ preflight }: { preflight: Preflight }) {
  const { nodes, links } = preflight;
  // On one machine, its name says nothing.
  const hasMachines = new Set(nodes.map((one) => one.machine)).size > 1;
  const name = (one: NodePreflight) => <>node {one.node}{hasMachines && <span class="under">{one.machine}</span>}</>;
  const fastest = Math.max(0, ...links.flatMap((one) => [one.out_bits_per_s, one.in_bits_per_s]));
  const isMeasured = links.length > 0 && nodes.length > 1;
  return (
    <section class="card preflight" aria-label="Pre-flight">
      <header><h2>Pre-flight</h2><span class="muted">what the nodes measured before the ranks started</span></header>
      <p class={preflight.problems.length ? "tone-wait" : ""}>{preflight.sentence}</p>
      {preflight.problems.length > 1 && <ul class="problems">{preflight.problems.map((one) => <li key={one}>{one}</li>)}</ul>}
      {isMeasured && (
        <div class="scroll" tabIndex={0} role="region" aria-label="Links between nodes">
          <table class="plain matrix">
            <thead>
              <tr><th scope="col">from \ to</th>{nodes.map((one) => <th key={one.node} scope="col" class="right">{name(one)}</th>)}</tr>
            </thead>
            <tbody>
              {nodes.map((from) => (
                <tr key={from.node}>
                  <th scope="row">{name(from)}</th>
                  {nodes.map((to) => <Way key={to.node} way={from === to ? undefined : wayOf(links, from.node, to.node)} isSelf={from === to} fastest={preflight.problems.length ? fastest : 0} />)}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}

function Way({ way, isSelf, fastest }: { way: Measured | undefined; isSelf: boolean; fastest: number }) {
  if (isSelf) return <td class="right muted" aria-label="itself">·</td>;
  if (!way) return <td class="right muted" title="This pair was not measured">–</td>;
  if (way.error) return <td class="right tone-bad" title={way.error}>✕ no way</td>;
  const isSlow = way.rate >= 0 && way.rate < fastest * SLOW;
  return (
    <td class={`right number${isSlow ? " tone-wait" : ""}`}>
      {way.rate < 0 ? "–" : rate(way.rate)}{isSlow && ", slow"}
      {way.roundTrip >= 0 && <span class="under">{latency(way.roundTrip)}</span>}
    </td>
  );
}
