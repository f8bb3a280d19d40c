import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, it } from "vitest";
import { sidecarOfFile } from "../../support/sidecar/door.ts";
import { adminKey, keyedConnection, temporaryFolder } from "../../support/sidecar/harness.ts";
import { launch } from "../../support/sidecar/process.ts";

const running = sidecarOfFile();

/** JSON whose values parsing would change, the path of the mistake, and a word of the message. */
const inexact: readonly (readonly [string, readonly string[], RegExp])[] = [
  ['{"a":-0}', ["a"], /-0/],
  ['{"a":-0.0}', ["a"], /-0/],
  ['{"a":-0e5}', ["a"], /-0/],
  ['{"a":9007199254740993}', ["a"], /9007199254740991/],
  ['{"a":9007199254740992}', ["a"], /9007199254740991/],
  ['{"a":-9007199254740993}', ["a"], /9007199254740991/],
  ['{"a":{"b":[1,{"c":12345678901234567890}]}}', ["a", "b", "1", "c"], /text/],
  ['{"a":1e400}', ["a"], /finite/],
  ['{"a":1e21}', ["a"], /text/],
];

/** Visible only in the text: protobuf's JSON parser drops these before any check. */
const inexactAsText: typeof inexact = [
  ...inexact,
  ['{"a":1e-400}', ["a"], /too small/],
  ['{"a":0.1234567890123456789}', ["a"], /17 digits/],
  ['{"a":1,"b":2,"a":3}', ["a"], /duplicate/],
  ['{"a":1,"\\u0061":3}', ["a"], /duplicate/],
  ['{"b":{"__proto__":1,"__proto__":2}}', ["b", "__proto__"], /duplicate/],
  ['{"a":["x","\\ud800"]}', ["a", "1"], /Unicode/],
];

const exact = [
  '{"a":9007199254740991,"b":-9007199254740991}',
  '{"a":0,"b":0.1,"c":-1.5e-7,"e":1}',
  '{"a":52.520006599999998}',
  '{"__proto__":{"x":1},"constructor":2,"toString":"3"}',
  '{"a":"9007199254740993","b":"-0","c":"1e400","d":"\\"a\\":-0"}',
  '{"a\\"b":[[],{},"",null,true,[{"a":1},{"a":2}]],"\\\\":"\\\\"}',
];

const connection = (field: string, json: string) =>
  JSON.stringify(keyedConnection("exact", { [field]: { of: "it" } })).replace('{"of":"it"}', json);

const shown = async (field: string) => {
  const { body } = await running().rest("GET", "/connections/exact?provider_config_key=keyed");
  return JSON.stringify(body[field]);
};

it.each(inexactAsText)("POST /connections and PATCH refuse %s and name the path", async (json, path, message) => {
  const { rest } = running();
  for (const field of ["metadata", "connection_config"]) {
    const { status, body } = await rest("POST", "/connections", { body: connection(field, json) });
    expect([status, body.error?.code]).toEqual([400, "invalid_body"]);
    expect(body.error.errors).toMatchObject([{ path: [field, ...path], message: expect.stringMatching(message) }]);
  }
  const patched = await rest("PATCH", "/connections/metadata", {
    body: `{"connection_id":"exact","provider_config_key":"keyed","metadata":${json}}`,
  });
  expect([patched.status, patched.body.error?.code]).toEqual([400, "invalid_body"]);
});

it.each(exact)("POST /connections keeps %s exactly", async (json) => {
  for (const field of ["metadata", "connection_config"]) {
    const { status } = await running().rest("POST", "/connections", { body: connection(field, json) });
    expect(status).toBe(201);
    const { body } = await running().rest("GET", "/connections/exact?provider_config_key=keyed");
    expect(body[field]).toEqual(JSON.parse(json));
    expect((await shown(field)).includes("__proto__")).toBe(json.includes("__proto__"));
  }
});

it("refuses such numbers in credentials, in the input of an action and in tags", async () => {
  const { rest } = running();
  const raw = await rest("POST", "/connections", {
    body:
      '{"provider_config_key":"calendar","connection_id":"raw","credentials":' +
      '{"type":"OAUTH2","access_token":"a","raw":{"user":12345678901234567890}}}',
  });
  expect(raw.body.error.errors[0].path).toEqual(["credentials", "raw", "user"]);
  const action = await rest("POST", "/action/trigger", {
    headers: { "connection-id": "exact", "provider-config-key": "keyed" },
    body: '{"action_name":"any","input":{"id":9007199254740993}}',
  });
  expect([action.status, action.body.error.errors?.[0]?.path]).toEqual([400, ["input", "id"]]);
  const tags = await rest("POST", "/connections", {
    body: JSON.stringify(keyedConnection("exact", { tags: { a: "1" } })).replace('"a":"1"', '"a":"1","a":"2"'),
  });
  expect([tags.status, tags.body.error?.errors[0].path]).toEqual([400, ["tags", "a"]]);
});

it.each(inexact)("UpdateMetadata as JSON refuses %s and names the path", async (json, path) => {
  await running().rest("POST", "/connections", { body: keyedConnection("exact", { metadata: { kept: 1 } }) });
  const answer = await fetch(`${running().control}/latchkey.v1.ConnectionService/UpdateMetadata`, {
    method: "POST",
    headers: { authorization: `Bearer ${adminKey}`, "content-type": "application/json" },
    body: `{"ref":{"environment":"dev","integration":"keyed","id":"exact"},"metadata":${json}}`,
  });
  expect(answer.status).toBe(400);
  const said = await answer.text();
  // protobuf's own reader refuses a number that is not finite, and names no path.
  if (!json.includes("1e400")) expect(said).toContain(["metadata", ...path].join("."));
  expect(await shown("metadata")).toBe('{"kept":1}');
});

it("an import of a file and the arguments of a command refuse them", async () => {
  const folder = await temporaryFolder();
  const file = join(folder, "connections.ndjson");
  const lines = [...inexactAsText.map(([json]) => connection("metadata", json)), connection("metadata", '{"good":1}')];
  await writeFile(file, `${lines.join("\n")}\n`);
  const env = { LATCHKEY_CONTROL: running().control, LATCHKEY_KEY: adminKey };
  const imported = launch(["connections", "import", file, "-e", "dev"], { folder, env });
  expect(await imported.exited).toBe(3);
  const said = imported.stdout() + imported.stderr();
  for (const [, path] of inexactAsText) expect(said).toContain(["metadata", ...path].join("."));
  expect(await shown("metadata")).toBe('{"good":1}');
  const set = launch(["connections", "metadata", "set", "keyed/exact", '{"a":{"b":-0}}', "-e", "dev"], { folder, env });
  expect(await set.exited).toBe(2);
  expect(set.stderr()).toMatch(/a\.b must not be -0/);
});
