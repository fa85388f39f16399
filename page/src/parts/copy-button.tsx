import { useState } from "preact/hooks";

/** Copies a text; says so for a moment. */
export function CopyButton({ text }: { text: string }) {
  const [isCopied, setCopied] = useState(false);
  const copy = async () => {
    await navigator.clipboard.writeText(text);
    setCopied(true);
    setTimeout(() => setCopied(false), 1500);
  };
  return <button type="button" class="quiet" onClick={copy}>{isCopied ? "Copied" : "Copy"}</button>;
}
