import { expect, it } from "vitest";
import { incomingFields, incomingLines, inspectedFields } from "../../../../src/core/outgoing/incoming-fields.ts";
import { createHeadReader } from "../../../../src/relay/http1/response-head.ts";
import { below, seeded } from "../../../support/runner/seeded.ts";

const readHead = createHeadReader(inspectedFields);
const names = [
  ...["Content-Type", "X-One", "Link", "link", "Location", "Content-Location", "Refresh", "Set-Cookie", "Vary", "vary"],
  ...["Alt-Svc", "Latchkey-State", "ETag", "Connection", "Keep-Alive"],
];
const values = ["a", "*", "Accept", "</next>; rel=next", "https://here.test/x", "keep-alive", "5; url=/y"];
const links = {
  reference: (text: string) => `R(${text})`,
  links: (text: string) => `L(${text})`,
  refresh: (text: string) => `F(${text})`,
};

it("writes the same header lines, in the same order, from unchanged lines as from all fields", () => {
  const random = seeded(7);
  const pick = (some: readonly string[]) => some[below(random, some.length)] ?? "";
  for (let round = 0; round < 3_000; round += 1) {
    const sent = Array.from({ length: below(random, 12) }, () => `${pick(names)}: ${pick(values)}\r\n`).join("");
    const head = readHead(`HTTP/1.1 200 OK\r\n${sent}Content-Length: 0\r\n\r\n`, false);
    if (head?.lines === undefined) continue;
    const rules = { links, state: ["Latchkey-Log", "l"], keepsSetCookie: round % 2 === 0 };
    const { lines, notable = [], notableAt = [] } = head;
    const fields = incomingFields({ ...rules, fields: head.fields });
    const expected = fields.flatMap((name, i) => (i % 2 === 0 ? [`${name}: ${fields[i + 1]}\r\n`] : [])).join("");
    expect(incomingLines({ ...rules, lines, notable, notableAt }), sent).toBe(`HTTP/1.1 200 OK\r\n${expected}`);
  }
});
