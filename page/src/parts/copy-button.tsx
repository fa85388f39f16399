import { useState } from "preact/hooks";

/** Copies a text; says so for a moment. */
export function CopyButton({ text }: { text: string }) {
  const [word, setWord] = useState("Copy");
  const copy = async () => {
    setWord((await isCopied(text)) ? "Copied" : "The browser refused");
    setTimeout(() => setWord("Copy"), 1500);
  };
  return <button type="button" class="quiet" onClick={copy}>{word}</button>;
}

async function isCopied(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return isCopiedFromField(text);
  }
}

/** The way of pages that browsers don't hold for secure, as over plain http from another machine. */
function isCopiedFromField(text: string): boolean {
  const field = document.createElement("textarea");
  field.value = text;
  field.className = "hidden";
  document.body.append(field);
  field.select();
  const isDone = document.execCommand("copy");
  field.remove();
  return isDone;
}
