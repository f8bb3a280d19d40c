import { expect, it } from "vitest";
import { runCli } from "../../../src/cli/program.ts";
import { Scope } from "../../../src/gen/latchkey/v1/access_pb.ts";
import { Connection_State, ConnectionService } from "../../../src/gen/latchkey/v1/connection_pb.ts";
import { EnvironmentService } from "../../../src/gen/latchkey/v1/environment_pb.ts";
import { LogService } from "../../../src/gen/latchkey/v1/log_pb.ts";
import { keyWith, sidecarOfFile } from "../../support/sidecar/door.ts";
import { adminKey, keyedConnection } from "../../support/sidecar/harness.ts";
import { memoryTerminal } from "../cli/memory-terminal.ts";

const running = sidecarOfFile();

const canary = "ya29.canary-4f1c9b2e7d6a";
const dying = (id: string, credentials: object = {}) => ({
  provider_config_key: "calendar",
  connection_id: id,
  credentials: { type: "OAUTH2", access_token: canary, expires_at: "2020-01-01T00:00:00Z", ...credentials },
});

async function imported(id: string, credentials?: object) {
  const { status, body } = await running().rest("POST", "/connections", { body: dying(id, credentials) });
  expect(status).toBe(201);
  return body;
}

async function latchkey(argv: readonly string[], isTerminal = false, signal?: AbortSignal) {
  const env = { LATCHKEY_KEY: adminKey, LATCHKEY_CONTROL: running().control };
  const terminal = memoryTerminal({ env, isTerminal, ...(signal === undefined ? {} : { signal }) });
  const code = await runCli(argv, terminal);
  return { code, out: terminal.out(), err: terminal.err() };
}

it("answers with the errors of a failed connection, and its log names the reason", async () => {
  const { errors } = await imported("dead");
  expect(errors).toEqual([{ type: "auth", log_id: expect.stringMatching(/^\w+$/) }]);
  const { rest, client } = running();
  const shown = await rest("GET", "/connections/dead?provider_config_key=calendar&credentials=false");
  expect(shown.body.errors).toEqual(errors);
  const listed = await rest("GET", "/connections?connectionId=dead");
  expect(listed.body.connections[0].errors).toEqual(errors);
  const used = await rest("GET", "/connections/dead?provider_config_key=calendar");
  expect([used.status, used.body.error.code]).toEqual([424, "reauthorization_required"]);

  const { log } = await client(LogService).getLog({ environment: "dev", id: errors[0].log_id });
  expect(log).toMatchObject({ operation: "auth.expire", integration: "calendar", connectionId: "dead", failed: true });
  expect(log?.lines[0]?.fields).toEqual({ credentials: "oauth2", credentials_expire_at: "2020-01-01T00:00:00.000Z" });
  const { connection } = await client(ConnectionService).getConnection({
    ref: { environment: "dev", integration: "calendar", id: "dead" },
  });
  expect(connection).toMatchObject({
    state: Connection_State.REAUTHORIZATION_REQUIRED,
    stateReason: "credentials_expired",
    errors: [{ type: "auth", logId: errors[0].log_id }],
  });
});

it("is well again with other credentials", async () => {
  await imported("mended");
  const { errors } = await imported("mended", { refresh_token: "1//rt" });
  expect(errors).toEqual([]);
});

it("shows logs to keys that may read connections, of their own environment", async () => {
  const { errors } = await imported("guarded");
  const [{ log_id: id }] = errors;
  const { client } = running();
  const asked = async (key: string, environment = "") =>
    client(LogService, key)
      .getLog({ environment, id })
      .then(({ log }) => log?.id)
      .catch(({ code }) => code);
  const permissionDenied = 7;
  const notFound = 5;
  expect(await asked(await keyWith(running(), Scope.CONNECTIONS_READ))).toBe(id);
  expect(await asked(await keyWith(running(), Scope.PROXY))).toBe(permissionDenied);
  await client(EnvironmentService).createEnvironment({ name: "elsewhere" });
  const { secret } = await client(EnvironmentService).createKey({
    environment: "elsewhere",
    scopes: [Scope.CONNECTIONS_READ],
  });
  expect(await asked(secret)).toBe(notFound);
  expect(await asked(secret, "dev")).toBe(permissionDenied);
  expect(await asked(adminKey, "dev")).toBe(id);
  expect(await asked(adminKey, "elsewhere")).toBe(notFound);
});

it("lists logs by subject, and refuses half a connection's name", async () => {
  await imported("listed-1");
  await imported("listed-2");
  const list = (filter: object) =>
    running()
      .client(LogService)
      .listLogs({ environment: "dev", ...filter });
  const { logs } = await list({ integration: "calendar", connectionId: "listed-1" });
  // How many there are is not said: the background writes logs of the connection too.
  expect(new Set(logs.map(({ connectionId }) => connectionId))).toEqual(new Set(["listed-1"]));
  const { logs: newest } = await list({ failed: true, operation: "auth.expire", pageSize: 2 });
  expect(newest.map(({ connectionId }) => connectionId)).toEqual(["listed-2", "listed-1"]);
  await expect(list({ connectionId: "listed-1" })).rejects.toMatchObject({ code: 3 });
});

it("lists and counts the connections that need the end user", async () => {
  const { rest, client, metric } = running();
  await rest("POST", "/connections", { body: keyedConnection("well") });
  await imported("lost");
  const { connections } = await client(ConnectionService).listConnections({
    environment: "dev",
    filter: { states: [Connection_State.REAUTHORIZATION_REQUIRED] },
  });
  const ids = connections.map(({ ref }) => ref?.id);
  expect(ids).toContain("lost");
  expect(ids).not.toContain("well");
  const gauge = 'latchkey_connections_unwell{state="reauthorization_required"}';
  expect(await metric(gauge)).toBe(ids.length);
  await rest("DELETE", "/connections/lost?provider_config_key=calendar");
  expect(await metric(gauge)).toBe(ids.length - 1);
});

it("shows it on a terminal", async () => {
  const { errors } = await imported("told");
  const listed = await latchkey(["connections", "list", "-e", "dev", "--state", "reauthorization_required"]);
  expect(listed.out).toMatch(/calendar\/told +calendar +reauthorization_required: credentials_expired/);
  expect((await latchkey(["connections", "list", "-e", "dev", "--state", "odd"])).code).toBe(2);
  const { out } = await latchkey(["logs", "-e", "dev", "--connection", "calendar/told"]);
  expect(out).toMatch(
    /^LOG +WHEN +OPERATION +OUTCOME +CONNECTION +WHAT HAPPENED\n(?:.*\n)*\w+ .* auth\.expire +failed +calendar\/told +the credentials/,
  );
  const read = await latchkey(["logs", errors[0].log_id, "-e", "dev"]);
  expect(read.out).toMatch(/^auth\.expire of calendar\/told in dev {2}failed\nlog \w+, 20\d\d-/);
  expect(read.out).toContain("credentials_expire_at=2020-01-01T00:00:00.000Z");
  const json = await latchkey(["logs", errors[0].log_id, "-e", "dev", "--json"]);
  expect(JSON.parse(json.out)).toMatchObject({ id: errors[0].log_id, connection_id: "told", failed: true });
  expect((await latchkey(["logs", "no-such-log", "-e", "dev"])).err).toContain('there is no log "no-such-log"');
  for (const text of [listed.out, out, read.out, json.out]) expect(text).not.toContain(canary);
});

it("follows new logs until it is interrupted", async () => {
  const interrupt = new AbortController();
  const following = latchkey(["logs", "-f", "-e", "dev"], false, interrupt.signal);
  const deadline = Date.now() + 10_000;
  await new Promise((resolve) => setTimeout(resolve, 300));
  await imported("followed");
  await new Promise((resolve) => setTimeout(resolve, 1_500));
  interrupt.abort();
  const { code, out } = await following;
  expect(Date.now()).toBeLessThan(deadline);
  expect(out.match(/auth\.expire of (\S+)/g)).toEqual(["auth.expire of calendar/followed"]);
  expect(code).toBe(0);
});
