import { expect, it } from "vitest";
import { sidecarOfFile } from "../../support/sidecar/door.ts";
import { createIntegrations, keyedConnection, startTestSidecar } from "../../support/sidecar/harness.ts";

const running = sidecarOfFile();

it("names the fields and parameters that were not understood, and warns once", async () => {
  const { rest, logged } = running();
  const body = keyedConnection("named", { conection_config: {}, "odd\nname": 1, end_user: { id: "x", nick: "y" } });
  const created = await rest("POST", "/connections", { body });
  expect(created.status).toBe(201);
  expect(created.headers.get("latchkey-ignored-fields")).toBe("end_user.nick, conection_config, odd%0Aname");
  const path = "/connections/named?provider_config_key=keyed&verbose=1";
  for (let i = 0; i < 3; i += 1) {
    expect((await rest("GET", path)).headers.get("latchkey-ignored-fields")).toBe("verbose");
  }
  const warned = logged.map((line) => JSON.parse(line)).filter(({ msg }) => msg.startsWith("ignored unknown"));
  expect(warned.map(({ route, fields }) => [route, fields])).toEqual([
    ["/connections", "end_user.nick, conection_config, odd%0Aname"],
    ["/connections/:id", "verbose"],
  ]);
  expect((await rest("GET", "/providers?search=cal")).headers.get("latchkey-ignored-fields")).toBeNull();
});

it("refuses a misspelled field in dev", async () => {
  const strict = await startTestSidecar();
  await createIntegrations(strict);
  strict.sidecar.refuseMisspelled();
  const { connection_id: _, ...rest } = keyedConnection("x");
  const misspelled = await strict.rest("POST", "/connections", { body: { ...rest, conection_id: "x" } });
  expect([misspelled.status, misspelled.body.error]).toMatchObject([
    400,
    {
      code: "invalid_body",
      message: 'unknown field "conection_id"; did you mean "connection_id"?',
      hint: 'did you mean "connection_id"?',
      errors: [{ path: ["conection_id"] }],
    },
  ]);
  expect((await strict.rest("GET", "/connections")).body.connections).toEqual([]);
  const session = await strict.rest("POST", "/connect/sessions", { body: { enduser: { id: "ada" } } });
  expect(session.body.error.hint).toBe('did you mean "end_user"?');
  const query = await strict.rest("GET", "/connections?conectionId=x");
  expect([query.status, query.body.error.hint]).toEqual([400, 'did you mean "connectionId"?']);
  // A field of another name is the caller's own.
  const other = await strict.rest("POST", "/connections", { body: keyedConnection("x", { flavor: "sweet" }) });
  expect([other.status, other.headers.get("latchkey-ignored-fields")]).toEqual([201, "flavor"]);
});
