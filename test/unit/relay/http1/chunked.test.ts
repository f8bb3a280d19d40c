import { expect, it } from "vitest";
import { createChunkDecoder } from "../../../../src/relay/http1/chunked.ts";

function decode(pieces: readonly string[]) {
  const decoder = createChunkDecoder();
  let content = "";
  let before = 0;
  for (const piece of pieces) {
    const used = decoder.decode(Buffer.from(piece, "latin1"), (bytes) => {
      content += bytes.toString("latin1");
    });
    if (used === -1) return "malformed";
    if (used !== undefined) return { content, trailers: decoder.trailers, end: before + used };
    before += piece.length;
  }
  return "unfinished";
}

it("finds content, trailers and the end, in any pieces", () => {
  const body = '5;name="a;b"\r\nhel\r\n\r\n00A\r\n0123456789\r\n0;x\r\nA: b\r\nEmpty:\r\n\r\n';
  const whole = { content: "hel\r\n0123456789", trailers: ["A", "b", "Empty", ""], end: body.length };
  const text = `${body}surplus`;
  for (let i = 0; i <= text.length; i += 1) {
    for (const j of [i + 1, i + 2, i + 7]) {
      expect(decode([text.slice(0, i), text.slice(i, j), text.slice(j)]), `${i}, ${j}`).toEqual(whole);
    }
  }
  expect(decode([...text])).toEqual(whole);
});

it("refuses what another reader could parse differently", () => {
  for (const body of [
    ...[
      "\r\n",
      "g\r\n",
      "-1\r\n",
      "+5\r\nhello",
      "0x5\r\nhello",
      " 5\r\nhello",
      "5 \r\nhello",
      "5\nhello",
      "5\r\rhello",
    ],
    ...["5\r\nhelloX", "5\r\nhello\n", "5\r\nhello\rX", "5;a\nb\r\nhello", "5;a\rb\r\nhello"],
    ...["fffffffffffffffff\r\n", "00000000000000\r\n", `5;${"x".repeat(5_000)}\r\n`],
    ...["0\r\nA b\r\n\r\n", "0\r\n: b\r\n\r\n", "0\r\nA: \0\r\n\r\n", "0\r\n folded\r\n\r\n", "0\r\nA: b\n\r\n"],
    `0\r\nA: ${"x".repeat(17_000)}\r\n\r\n`,
  ]) {
    expect(decode([body]), JSON.stringify(body.slice(0, 40))).toBe("malformed");
    expect(decode([...body]), JSON.stringify(body.slice(0, 40))).toBe("malformed");
  }
  expect(decode(["5\r\nhello\r\n0\r\n"])).toBe("unfinished");
});
