import { setTimeout as pause } from "node:timers/promises";
import type { AccessCheck } from "../auth/access.ts";
import { numberIn } from "../call.ts";
import type { SandboxRoute } from "../router.ts";

const pieceBytes = 65_536;
const tickMs = 100;
/** The repeated content of the body, so that a reader can detect missing bytes. */
const pattern = Buffer.alloc(pieceBytes, "0123456789abcdef");

/** Slow responses: a body of a given size in a given time, and server-sent events. */
export function streamRoutes(access: AccessCheck): readonly SandboxRoute[] {
  return [
    {
      method: "GET",
      path: "/drive/v3/slow",
      endpoint: "stream",
      answer(call) {
        access.require(call, ["drive", "drive.readonly", "drive.file"]);
        const bytes = numberIn(call.query, "bytes", { least: 0, most: 16 * 1_024 ** 3, otherwise: 1_048_576 });
        const seconds = numberIn(call.query, "seconds", { least: 0, most: 86_400, otherwise: 5 });
        return {
          status: 200,
          headers: { "content-type": "application/octet-stream", "content-length": String(bytes) },
          pieces: (signal) => slowly({ bytes, seconds, signal }),
        };
      },
    },
    {
      method: "GET",
      path: "/drive/v3/events",
      endpoint: "stream",
      answer(call) {
        access.require(call, ["drive", "drive.readonly", "drive.file"]);
        const count = numberIn(call.query, "count", { least: 1, most: 1_000_000, otherwise: 10 });
        const everyMs = numberIn(call.query, "everyMs", { least: 0, most: 60_000, otherwise: 1_000 });
        return {
          status: 200,
          headers: { "content-type": "text/event-stream", "cache-control": "no-store" },
          pieces: (signal) => events({ count, everyMs, signal }),
        };
      },
    },
  ];
}

interface SlowBody {
  readonly bytes: number;
  readonly seconds: number;
  readonly signal: AbortSignal;
}

async function* slowly({ bytes, seconds, signal }: SlowBody): AsyncGenerator<Buffer> {
  const ticks = Math.max(1, Math.ceil((seconds * 1_000) / tickMs));
  for (let tick = 1, sent = 0; tick <= ticks; tick += 1) {
    const due = Math.floor((bytes * tick) / ticks);
    while (sent < due) {
      const at = sent % pattern.length;
      const piece = pattern.subarray(at, Math.min(pattern.length, at + due - sent));
      sent += piece.length;
      yield piece;
    }
    if (tick < ticks) await pause(tickMs, undefined, { signal });
  }
}

interface EventStream {
  readonly count: number;
  readonly everyMs: number;
  readonly signal: AbortSignal;
}

async function* events({ count, everyMs, signal }: EventStream): AsyncGenerator<string> {
  for (let i = 1; i <= count; i += 1) {
    yield `id: ${i}\nevent: tick\ndata: {"number":${i}}\n\n`;
    if (i < count) await pause(everyMs, undefined, { signal });
  }
}
