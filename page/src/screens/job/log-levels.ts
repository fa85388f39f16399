/** How grave a line of a log is, by the words of logging, loguru, glog and exceptions. */

export type Level = "error" | "warning" | "";

/** `E1129 17:00:00`, as glog begins its lines. */
const GLOG = String.raw`\d{4} \d\d:\d\d:\d\d`;
const ERROR = new RegExp([
  String.raw`\b(?:Traceback|Error|Exception|ERROR|FATAL|CRITICAL|SEVERE)\b`,
  String.raw`^[\w.]*(?:Error|Exception|Interrupt)\b`,
  `^[EF]${GLOG}`,
  String.raw`\bout of memory\b|\bOOM\b|\bstd::bad_alloc\b`,
].join("|"));
const WARNING = new RegExp([String.raw`\b(?:WARNING|WARN|Warning)\b`, String.raw`\b[A-Z]\w*Warning:`, `^W${GLOG}`].join("|"));

export function levelOf(text: string): Level {
  if (ERROR.test(text)) return "error";
  return WARNING.test(text) ? "warning" : "";
}

/** Whether a line is at least as grave. least: "" = every line. */
export function isGrave(text: string, least: string): boolean {
  if (!least) return true;
  const level = levelOf(text);
  return level === "error" || (least === "warning" && level === "warning");
}
