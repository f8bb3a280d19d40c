import { randomFillSync } from "node:crypto";

export interface TraceIds {
  traceId(): string;
  spanId(): string;
}

/** Draws random bytes for hundreds of ids at once, which is cheaper. An invalid id of zeros is too rare to check for. */
export function createTraceIds(): TraceIds {
  const pool = Buffer.alloc(8_192);
  let at = pool.length;
  const draw = (bytes: number): string => {
    if (at + bytes > pool.length) {
      randomFillSync(pool);
      at = 0;
    }
    at += bytes;
    return pool.toString("hex", at - bytes, at);
  };
  return { traceId: () => draw(16), spanId: () => draw(8) };
}
