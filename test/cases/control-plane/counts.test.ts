import { expect, it } from "vitest";
import { Scope } from "../../../src/gen/latchkey/v1/access_pb.ts";
import { ConnectSession_State, ConnectSessionService } from "../../../src/gen/latchkey/v1/connect_session_pb.ts";
import {
  Connection_State,
  ConnectionService,
  ListConnectionsRequest_Order,
} from "../../../src/gen/latchkey/v1/connection_pb.ts";
import { EnvironmentService } from "../../../src/gen/latchkey/v1/environment_pb.ts";
import { sidecarOfFile } from "../../support/sidecar/door.ts";
import { keyedConnection } from "../../support/sidecar/harness.ts";
import { post } from "./foreign.ts";

const running = sidecarOfFile();
const order = ListConnectionsRequest_Order.NEWEST_FIRST;
const { ACTIVE, REAUTHORIZATION_REQUIRED } = Connection_State;

/** Expired, and without a way to refresh. */
const expired = (id: string) => ({
  provider_config_key: "calendar",
  connection_id: id,
  credentials: { type: "OAUTH2", access_token: "t", expires_at: "2020-01-01T00:00:00Z" },
});

const importing = (body: object) => running().rest("POST", "/connections", { body });
const connections = () => running().client(ConnectionService);

async function countsOf(environment = "dev", integrations: string[] = []) {
  const { counts, isComplete } = await connections().countConnections({ environment, integrations });
  expect(isComplete).toBe(true);
  return counts.map(({ integration, state, stateReason, count }) => [integration, state, stateReason, count]);
}

const idsOf = (listed: readonly { readonly ref?: { readonly id: string } | undefined }[]) =>
  listed.map(({ ref }) => ref?.id);

it("counts connections by integration, state and reason through imports, changes of state and deletions", async () => {
  expect(await countsOf()).toEqual([]);
  for (const id of ["n-1", "n-2", "n-3"]) await importing(keyedConnection(id, { tags: { team: "red" } }));
  for (const id of ["n-4", "n-5"]) await importing(expired(id));
  const dead = ["calendar", REAUTHORIZATION_REQUIRED, "credentials_expired"];
  expect(await countsOf()).toEqual([
    [...dead, 2],
    ["keyed", ACTIVE, "", 3],
  ]);
  expect(await countsOf("dev", ["keyed"])).toEqual([["keyed", ACTIVE, "", 3]]);
  await importing({ ...expired("n-4"), credentials: { type: "OAUTH2", access_token: "t" } });
  await connections().deleteConnection({ ref: { environment: "dev", integration: "keyed", id: "n-2" } });
  await importing(keyedConnection("n-2"));
  await connections().deleteConnection({ ref: { environment: "dev", integration: "keyed", id: "n-3" } });
  expect(await countsOf()).toEqual([
    ["calendar", ACTIVE, "", 1],
    [...dead, 1],
    ["keyed", ACTIVE, "", 2],
  ]);
});

it("lists the newest first with a total, in pages that survive changes", async () => {
  const first = await connections().listConnections({ environment: "dev", order, pageSize: 2 });
  expect([idsOf(first.connections), first.order, first.totalSize]).toEqual([["n-2", "n-5"], order, 4]);
  await importing(keyedConnection("n-6"));
  await connections().deleteConnection({ ref: { environment: "dev", integration: "calendar", id: "n-5" } });
  const pageToken = first.nextPageToken;
  const second = await connections().listConnections({ environment: "dev", order, pageSize: 2, pageToken });
  expect([idsOf(second.connections), second.nextPageToken, second.totalSize]).toEqual([["n-4", "n-1"], "", 4]);
  const other = { environment: "dev", pageSize: 2, pageToken };
  await expect(connections().listConnections(other)).rejects.toThrow("the page token must come from");
});

it("filters by reason, state and the start of the id, and gives a total only where no connection is read", async () => {
  await importing(expired("n-7"));
  const listed = async (filter: object, wanted: object = { order }) => {
    const page = await connections().listConnections({ environment: "dev", filter, ...wanted });
    return [idsOf(page.connections), page.totalSize, page.order];
  };
  const name = ListConnectionsRequest_Order.UNSPECIFIED;
  expect(await listed({ reasons: ["credentials_expired"] })).toEqual([["n-7"], 1, order]);
  expect(await listed({ reasons: ["credentials_expired"] }, {})).toEqual([["n-7"], 1, name]);
  expect(await listed({ reasons: ["revoked"] })).toEqual([[], 0, order]);
  expect(await listed({ states: [ACTIVE], integrations: ["keyed"] })).toEqual([["n-6", "n-2", "n-1"], 3, order]);
  expect(await listed({ search: "N-6" })).toEqual([["n-6"], undefined, order]);
  expect(await listed({ idPrefix: "n-" })).toEqual([["n-4", "n-7", "n-1", "n-2", "n-6"], undefined, name]);
  expect(await listed({ idPrefix: "n-7", integrations: ["keyed"] })).toEqual([[], undefined, name]);
  expect(await listed({ tags: { team: "red" } })).toEqual([["n-1"], undefined, name]);
});

it("lists connect sessions that are open, newest first, without tokens, in their environment only", async () => {
  const { client, data } = running();
  const sessions = client(ConnectSessionService);
  const made = await sessions.createConnectSession({ environment: "dev", endUser: { id: "ada" } });
  await sessions.createConnectSession({ environment: "dev", endUser: { id: "bob" }, allowedIntegrations: ["keyed"] });
  await sessions.createConnectSession({
    environment: "dev",
    endUser: { id: "eve" },
    allowedIntegrations: ["calendar"],
  });
  await fetch(`${data}/connect/?session_token=${made.token}`);
  const listed = async (request: object) => {
    const { sessions: found } = await sessions.listConnectSessions({ environment: "dev", ...request });
    return found.map(({ endUser, state }) => [endUser?.id, state]);
  };
  const { CREATED } = ConnectSession_State;
  expect((await listed({})).map(([id]) => id)).toEqual(["eve", "bob", "ada"]);
  expect((await listed({ integration: "keyed" })).map(([id]) => id)).toEqual(["bob", "ada"]);
  expect((await listed({ integration: "keyed" }))[0]).toEqual(["bob", CREATED]);
  const { body } = await post(running().control, "ConnectSessionService/ListConnectSessions", { environment: "dev" });
  expect(JSON.stringify(body)).not.toContain(made.token);

  await client(EnvironmentService).createEnvironment({ name: "counted" });
  const { secret } = await client(EnvironmentService).createKey({
    environment: "counted",
    scopes: [Scope.CONNECTIONS_READ],
  });
  const asked = (method: string, request: object) => post(running().control, method, request, { key: secret });
  for (const method of ["ConnectSessionService/ListConnectSessions", "ConnectionService/CountConnections"]) {
    const own = await asked(method, {});
    expect([own.status, own.body["sessions"] ?? [], own.body["counts"] ?? []]).toEqual([200, [], []]);
    expect((await asked(method, { environment: "dev" })).status).toBe(403);
  }
});
