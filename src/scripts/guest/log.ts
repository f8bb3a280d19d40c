import { host, limits } from "./port.ts";

const levels = ["debug", "info", "warn", "error"] as const;
export type Level = (typeof levels)[number];

let lines = 0;

/** Writes a line of the run's log. Past the limit, arguments are not even formatted. */
export function log(level: Level, args: readonly unknown[]): void {
  lines += 1;
  if (lines > limits.logLines) {
    if (lines === limits.logLines + 1) host("log-full", "", "");
    return;
  }
  const text = args.map(textOf).join(" ");
  host("log", level, JSON.stringify(text.slice(0, limits.logLineBytes)));
}

/** The last argument sets the level, if it has a valid one and is not the only argument. */
export function logWithOptions(args: readonly unknown[]): void {
  const last = args.at(-1);
  const level = args.length > 1 && typeof last === "object" && last !== null ? (last as { level?: unknown }).level : "";
  const known = levels.find((one) => one === level);
  log(known ?? "info", known === undefined ? args : args.slice(0, -1));
}

function textOf(value: unknown): string {
  if (typeof value === "string") return value;
  if (value instanceof Error) return `${value.name}: ${value.message}\n${value.stack ?? ""}`.trimEnd();
  if (typeof value !== "object" || value === null) return String(value);
  try {
    return JSON.stringify(value) ?? String(value);
  } catch {
    // A cycle or a BigInt, which JSON cannot represent: show the type.
    return Object.prototype.toString.call(value);
  }
}
