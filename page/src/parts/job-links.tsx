/** A sentence of the server in which the names of other jobs lead to them. */

import type { ComponentChildren } from "preact";
import { jobHref } from "../router";

const HOLDERS = /(\bheld by )(.+)$/;
const HOLDER = /^([A-Za-z0-9][\w.-]*)((?: \([^)]*\))?)(, | and \d+ more.*$| and |;.*$|$)/;
const NEXT = /(: )([A-Za-z0-9][\w.-]*)( is next, )/;

export interface Part { text: string; job?: string }

/** Where a sentence on a wait names the jobs that hold what is waited for, and the job whose turn it is before. */
export function partsOf(sentence: string): Part[] {
  const held = HOLDERS.exec(sentence);
  const before = held ? sentence.slice(0, held.index + held[1]!.length) : sentence;
  const next = NEXT.exec(before);
  const start = next ? next.index + next[1]!.length : 0;
  const parts: Part[] = next
    ? [{ text: before.slice(0, start) }, { text: next[2]!, job: next[2]! }, { text: before.slice(start + next[2]!.length) }]
    : [{ text: before }];
  let rest = held?.[2] ?? "";
  while (rest) {
    const one = HOLDER.exec(rest);
    if (!one || one[1] === "nobody") {
      parts.push({ text: rest });
      break;
    }
    parts.push({ text: one[1]!, job: one[1]! }, { text: one[2]! + one[3]! });
    rest = rest.slice(one[0].length);
  }
  return parts.filter((part) => part.text);
}

export function Linked({ sentence }: { sentence: string }): ComponentChildren {
  return partsOf(sentence).map((part, n) => (part.job ? <a key={n} href={jobHref(part.job)}>{part.text}</a> : part.text));
}
