import { randomFillSync } from "node:crypto";

export interface TraceIds {
  traceId(): string;
  spanId(): string;
}

/** Drawn for hundreds of spans at once: a draw costs more than an id. All zero, which is no id, is as good as never drawn. */
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
