/** Loaded into an idle process before it: prints which timers and other events woke its event loop. */
import { createHook } from "node:async_hooks";

/** The seconds to wait, and the seconds to look. */
const [settle = 0, length = 0] = (process.env["WAKE_PROBE"] ?? "").split(",").map(Number);
const mostFrames = 2;
const mostLines = 30;

const sources = new Map<number, string>();
let counts = new Map<string, number>();
let isLooking = true;

/** The own frames of whoever started it. */
function sourceOf(type: string): string {
  const frames = (new Error().stack ?? "").split("\n").slice(2);
  const own = frames.filter((frame) => !/node:|wake-probe|node_modules/.test(frame)).slice(0, mostFrames);
  const packaged = frames.filter((frame) => frame.includes("node_modules")).slice(0, 1);
  const shown = [...packaged, ...own].map((frame) =>
    frame.trim().replace(/^at |file:\/\/\S*\/(?=src|node_modules)/g, ""),
  );
  return [type, ...shown].join(" < ");
}

Error.stackTraceLimit = 20;
createHook({
  init(id, type) {
    if (isLooking && type !== "PROMISE") sources.set(id, sourceOf(type));
  },
  before(id) {
    const source = sources.get(id);
    if (source !== undefined) counts.set(source, (counts.get(source) ?? 0) + 1);
  },
  destroy: (id) => void sources.delete(id),
}).enable();

setTimeout(() => {
  counts = new Map();
  setTimeout(() => {
    const lines = [...counts].toSorted(([, a], [, b]) => b - a).slice(0, mostLines);
    for (const [source, count] of lines) process.stderr.write(`${(count / length).toFixed(2)}/s  ${source}\n`);
    isLooking = false;
  }, length * 1_000).unref();
}, settle * 1_000).unref();
