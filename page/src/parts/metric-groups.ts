/** Which metrics belong together: the same one of training and of held-out data in a card, cards in sections by prefix. */

const SPLIT = "train|training|val|valid|validation|eval|evaluation|dev|test";
const BEFORE = new RegExp(`^(${SPLIT})[/_.-](.+)$`, "i");
const BEHIND = new RegExp(`^(.+)[/_.-](${SPLIT})$`, "i");
const ORDER = ["", ...SPLIT.split("|")];
/** The order of a card's lines: training first. */

/** names: of one to a few metrics, drawn in one chart; title: what they have in common. */
export interface MetricCard { title: string; names: string[] }
export interface MetricSection { prefix: string; cards: MetricCard[] }

/** What a name measures, and on which data; "" = the name doesn't say. */
export function partsOfName(name: string): { base: string; split: string } {
  const before = BEFORE.exec(name);
  if (before) return { base: before[2]!, split: before[1]!.toLowerCase() };
  const behind = BEHIND.exec(name);
  return behind ? { base: behind[1]!, split: behind[2]!.toLowerCase() } : { base: name, split: "" };
}

/** One card for each metric, or for the same one on several data, in the order in which they began. */
export function cardsOf(names: string[]): MetricCard[] {
  const cards = new Map<string, string[]>();
  for (const name of names) {
    const { base } = partsOfName(name);
    cards.set(base, [...(cards.get(base) ?? []), name]);
  }
  const place = (name: string) => ORDER.indexOf(partsOfName(name).split);
  return [...cards].map(([base, own]) =>
    own.length === 1 ? { title: own[0]!, names: own } : { title: base, names: [...own].sort((a, b) => place(a) - place(b)) });
}

/** The part of a metric's name before its first slash; "" = it has none. */
export const prefixOf = (name: string): string => (name.includes("/") ? name.slice(0, name.indexOf("/")) : "");

/** Cards by the prefix of their first metric: the smallest section first, as one with each layer's gradients would bury the others. */
export function sectionsOf(cards: MetricCard[]): MetricSection[] {
  const sections = new Map<string, MetricCard[]>();
  for (const card of cards) {
    const prefix = prefixOf(card.names[0]!);
    sections.set(prefix, [...(sections.get(prefix) ?? []), card]);
  }
  return [...sections].map(([prefix, own]) => ({ prefix, cards: own })).sort((a, b) => a.cards.length - b.cards.length);
}

/** The cards with a metric that a text finds: as a regular expression, or, where it is none, as it is written. */
export function foundCards(cards: MetricCard[], text: string): MetricCard[] {
  if (!text) return cards;
  let matches = (name: string) => name.toLowerCase().includes(text.toLowerCase());
  try {
    const pattern = new RegExp(text, "i");
    matches = (name) => pattern.test(name);
  } catch {
    // It is half written, or meant as it stands.
  }
  return cards.filter((card) => card.names.some(matches));
}

const MAX_SHOWN = 4;
const NEVER = /(^|[/_.-])(lr|learning_rate|grad|grads|gradient|time|step|steps|epoch|mem|memory)([/_.-]|$)/i;

/** The cards that say most of a job at a glance: that of the metric that counts first, then pairs, then losses and scores. */
export function mainCards(names: string[], primary: string | undefined): MetricCard[] {
  const cards = cardsOf(names);
  const weight = ({ names: own }: MetricCard): number =>
    primary && own.includes(primary) ? 0 : own.length > 1 ? 1 : own.some((name) => NEVER.test(name)) ? 3 : 2;
  return cards.map((card, n) => ({ card, n })).sort((a, b) => weight(a.card) - weight(b.card) || a.n - b.n).slice(0, MAX_SHOWN).map(({ card }) => card);
}

/** Those that a user has pinned come first; at most as many as without any. */
export function withPinned(pinned: MetricCard[], main: MetricCard[]): MetricCard[] {
  const shown = pinned.filter((card) => card.names.length);
  const keys = new Set(shown.map((card) => card.names.join("\n")));
  return [...shown, ...main.filter((card) => !keys.has(card.names.join("\n")))].slice(0, MAX_SHOWN);
}
