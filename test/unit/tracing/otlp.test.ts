import { expect, it } from "vitest";
import { attribute, spanText } from "../../../src/tracing/otlp.ts";
import { createTraceIds } from "../../../src/tracing/trace-ids.ts";

const traceId = "0af7651916cd43dd8448eb211c80319c";

it("writes a span as OTLP JSON, to the nanosecond and with any text", () => {
  const odd = 'a "quote"\\ \n \u2028 \ud83d\ude00 \ud800';
  const text = spanText({
    context: { traceId, spanId: "b7ad6b7169203331", flags: 1 },
    parent: undefined,
    isParentRemote: false,
    name: odd,
    kind: "internal",
    startMs: 1_700_000_000_000.0625,
    endMs: 1_700_000_000_001,
    attributes: attribute("a", odd) + attribute("b", 7),
    isError: true,
  });
  expect(JSON.parse(text)).toEqual({
    traceId,
    spanId: "b7ad6b7169203331",
    flags: 0x101,
    name: odd,
    kind: 1,
    startTimeUnixNano: "1700000000000062500",
    endTimeUnixNano: "1700000000001000000",
    attributes: [
      { key: "a", value: { stringValue: odd } },
      { key: "b", value: { intValue: "7" } },
    ],
    status: { code: 2 },
  });
});

it("draws no id twice, each of its own length", () => {
  const ids = createTraceIds();
  const drawn = Array.from({ length: 3_000 }, (_, i) => (i % 3 === 0 ? ids.traceId() : ids.spanId()));
  expect(drawn.every((id, i) => id.length === (i % 3 === 0 ? 32 : 16))).toBe(true);
  expect(new Set(drawn.map((id) => id.slice(0, 16))).size).toBe(3_000);
});
