import http2 from "node:http2";
import { type DescField, type DescMessage, type DescMethod, ScalarType } from "@bufbuild/protobuf";
import { expect, it } from "vitest";
import { seeded } from "../../support/runner/seeded.ts";
import { sidecarOfFile } from "../../support/sidecar/door.ts";
import { envelope, type Plain, post, rawCall } from "./foreign.ts";
import { methods, pathOf } from "./services.ts";

const running = sidecarOfFile();

/** A request with the same text wherever a text may stand, one item in every list, and everything else left out. */
function filled(message: DescMessage, text: string, { environment }: { readonly environment: string }): Plain {
  const fill = (field: DescField): unknown => {
    if (field.name === "environment") return environment;
    if (field.scalar === ScalarType.STRING) return text;
    if (field.message === undefined) return undefined;
    const { typeName } = field.message;
    if (typeName === "google.protobuf.Struct") return { [text]: text };
    if (typeName === "google.protobuf.FieldMask") return "tags";
    if (typeName.startsWith("google.protobuf.")) return undefined;
    return filled(field.message, text, { environment });
  };
  const entries = message.fields.flatMap((field) => {
    // The first member of a oneof is enough.
    if (field.oneof !== undefined && field.oneof.fields[0] !== field) return [];
    const value = fill(field);
    if (value === undefined) return [];
    if (field.fieldKind === "list") return [[field.jsonName, [value]]];
    if (field.fieldKind === "map") return [[field.jsonName, { [text]: value }]];
    return [[field.jsonName, value]];
  });
  return Object.fromEntries(entries);
}

const odd: Readonly<Record<string, string>> = {
  "no character": "\0",
  "no character in the middle": "a\0b",
  "a name of JavaScript's": "__proto__",
  "another name of JavaScript's": "constructor",
  "a way out": "../../etc/passwd",
  "a line of log": '\n{"level":"fatal"}',
  "a turn to the left": "\u202e",
  "a very long name": "x".repeat(10_000),
  "no letters": " ",
  "letters of many bytes": "𝒳".repeat(64),
};

const unary = methods.filter(({ methodKind }) => methodKind === "unary");

/** Expects an answer other than `internal`, which is the code of unexpected errors. */
async function expectForeseen(method: DescMethod, request: Plain): Promise<void> {
  const { body } = await post(running().control, pathOf(method).slice(1), request);
  expect({ method: method.name, code: body["code"], message: body["message"] }).not.toMatchObject({ code: "internal" });
  expect(body["code"]).not.toBe("unknown");
}

it.each(Object.entries(odd))("foresees %s wherever a text may stand", async (_what, text) => {
  for (const method of unary) {
    await expectForeseen(method, filled(method.input, text, { environment: "dev" }));
    await expectForeseen(method, filled(method.input, text, { environment: text }));
  }
  const { logged, metric } = running();
  expect(logged.filter((line) => line.includes('"level":"error"'))).toEqual([]);
  expect(await metric("latchkey_unhandled_errors_total")).toBe(0);
});

/** Bytes that are no message, or look like one for a while: a field that may exist, a length that may be right. */
function nonsense(next: () => number): Buffer {
  const below = (limit: number) => Math.floor(next() * limit);
  const parts = Array.from({ length: 1 + below(4) }, () => {
    const body = Buffer.from(Array.from({ length: below(40) }, () => below(256)));
    const tag = (1 + below(9)) * 8 + below(6);
    return next() < 0.3 ? body : Buffer.concat([Buffer.from([tag, next() < 0.8 ? body.length : below(128)]), body]);
  });
  return Buffer.concat(parts);
}

it("foresees bytes that are no message", async () => {
  const next = seeded(2026);
  const session = http2.connect(running().control);
  const codes = new Set<number | undefined>();
  try {
    for (const method of unary) {
      for (let i = 0; i < 25; i += 1) {
        const body = nonsense(next);
        const { code } = await rawCall(session, pathOf(method), { body: envelope(body) });
        codes.add(code);
        expect({ method: method.name, code, body: body.toString("hex") }).not.toMatchObject({ code: 13 });
      }
    }
  } finally {
    session.destroy();
  }
  expect(codes).not.toContain(undefined);
  expect(codes).toContain(3);
  expect(await running().metric("latchkey_unhandled_errors_total")).toBe(0);
});
