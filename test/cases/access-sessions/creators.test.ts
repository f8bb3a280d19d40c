import { expect, it } from "vitest";
import { parseChangeable } from "../../../src/config/config.ts";
import { Scope } from "../../../src/gen/latchkey/v1/access_pb.ts";
import { EnvironmentService } from "../../../src/gen/latchkey/v1/environment_pb.ts";
import { startTestEdge } from "../../support/edges/test-edge.ts";
import { aliases, type Face, faces, startForSessions, unhurried } from "./faces.ts";

const path = "/config";
const ofAda = { connections: [{ integration: "here", id: "ada" }] };
const ask = faces["/proxy"] as Face;
const maker = {
  id: "maker",
  key: { env: "MAKER_KEY" },
  scopes: ["proxy", "connections:write", "connections:read"],
};

/** A sidecar with a key in its configuration file, which makes sessions. */
async function startWith(secrets: Readonly<Record<string, string>>) {
  const fileOf = (key: object | undefined) =>
    JSON.stringify({ aliases, ...unhurried, environments: [{ name: "dev", keys: key === undefined ? [] : [key] }] });
  const env: Record<string, string> = { LATCHKEY_CONFIG: path, ...secrets };
  const running = await startForSessions({ env, files: { [path]: fileOf(maker) } });
  /** Replaces the key in the file. */
  const declare = (key: object | undefined, now: Readonly<Record<string, string>> = secrets) =>
    running.sidecar.reload(() =>
      parseChangeable({ path, env: now, files: { read: () => ({ text: fileOf(key), mode: 0o600 }) } }),
    );
  const create = async (key: string, body: object = {}) => {
    const made = await running.rest("POST", "/access-sessions", { key, body: { limits: ofAda, ...body } });
    if (made.status !== 201) throw new Error(`no session was made: ${JSON.stringify(made.body)}`);
    return made.body.data as { readonly id: string; readonly token: string };
  };
  return { running, declare, create };
}

const secret = "lk_a-secret-of-the-key-in-the-file-001";

it("allows a session no more than its key in the file allows now, on every face", async () => {
  const { running, declare, create } = await startWith({ MAKER_KEY: secret });
  const { token } = await create(secret);
  const answers = async () => {
    const found: Record<string, unknown> = {};
    for (const [name, face] of Object.entries(faces)) found[name] = (await face(running, token))[1];
    return found;
  };
  const everywhere = (code: string | null) => Object.fromEntries(Object.keys(faces).map((name) => [name, code]));
  expect(await answers()).toEqual(everywhere(null));
  const limitedTo = (limits: object) => declare({ ...maker, limits });
  for (const limits of [
    { paths: ["/y"] },
    { methods: ["DELETE"] },
    { hosts: ["api.example.com"] },
    { connections: [{ integration: "here", id: "bob" }] },
  ]) {
    await limitedTo(limits);
    expect([limits, await answers()]).toEqual([limits, everywhere("not_in_session")]);
  }
  await limitedTo({ paths: ["/x"], ...ofAda });
  expect(await answers()).toEqual(everywhere(null));
  await declare({ ...maker, scopes: ["connections:write"] });
  expect(await answers()).toEqual(everywhere("missing_scope"));
  await declare(maker);
  expect(await answers()).toEqual(everywhere(null));
});

it("ends with its key in the file, and does not come back with another key of the same id", async () => {
  const { running, declare, create } = await startWith({ MAKER_KEY: secret });
  const { id, token } = await create(secret);
  expect(await ask(running, token)).toEqual([200, null]);
  await declare(undefined);
  expect(await ask(running, token)).toEqual([401, "unknown_key"]);
  await declare(maker, { MAKER_KEY: "lk_a-secret-of-the-key-in-the-file-002" });
  expect(await ask(running, token)).toEqual([401, "unknown_key"]);
  const { body } = await running.rest("GET", `/access-sessions/${id}`);
  expect(body.data).toMatchObject({ state: "ended", created_by: "maker" });
  expect(JSON.stringify(body)).not.toContain("mark");
  // A replica may not have read the new file yet: nothing is written.
  await running.sidecar.broker.keepHouse();
  await declare(maker);
  expect(await ask(running, token)).toEqual([200, null]);
});

it("ends for good with a key that is deleted and created again, also on an edge", async () => {
  const { running, create } = await startWith({ MAKER_KEY: secret });
  const keys = running.client(EnvironmentService);
  const scopes = [Scope.PROXY, Scope.CONNECTIONS_WRITE, Scope.CONNECTIONS_READ];
  const again = () => keys.createKey({ environment: "dev", id: "stored", scopes, limits: ofAda });
  const [first, edges] = [await again(), await keys.createKey({ environment: "dev", scopes: [Scope.EDGE] })];
  const allowed = running.config.allowPrivate.join(",");
  const edge = await startTestEdge({
    brokers: [running.control],
    env: { LATCHKEY_BROKERS_KEY: edges.secret, LATCHKEY_ALLOW_PRIVATE: allowed },
  });
  const { id, token } = await create(first.secret, { budget: 100 });
  const atEdge = () => ask({ ...running, data: edge.data }, token);
  expect([await ask(running, token), await atEdge()]).toEqual([
    [200, null],
    [200, null],
  ]);
  await keys.revokeKey({ id: "stored" });
  const second = await again();
  expect(await ask(running, token)).toEqual([401, "unknown_key"]);
  await expect.poll(atEdge, { interval: 10 }).toEqual([401, "unknown_key"]);
  // Nor does the new key see it: it is another's.
  expect((await running.rest("GET", `/access-sessions/${id}`, { key: second.secret })).status).toBe(404);
  expect((await running.rest("GET", `/access-sessions/${id}`)).body.data.state).toBe("ended");
  expect((await running.rest("GET", "/access-sessions")).body.sessions).toEqual([]);
  await running.sidecar.broker.keepHouse();
  const { body } = await running.rest("GET", "/access-sessions?state=ended");
  expect(body.sessions).toMatchObject([{ id, state: "ended", ended_by: "stored", created_by: "stored" }]);
  expect(await ask(running, (await create(second.secret)).token)).toEqual([200, null]);
});
