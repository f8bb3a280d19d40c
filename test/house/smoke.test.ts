import { Code } from "@connectrpc/connect";
import { expect, it } from "vitest";
import { ConnectionService } from "../../src/gen/latchkey/v1/connection_pb.ts";
import { createIntegrations, keyedConnection, startTestSidecar } from "../support/sidecar/harness.ts";

it("imports a connection over JSON and shows it over gRPC", async () => {
  const running = await startTestSidecar();
  await createIntegrations(running);
  const { status, body } = await running.rest("POST", "/connections", {
    body: keyedConnection("ada", { tags: { Team: "x" } }),
  });
  expect(status).toBe(201);
  expect(body).toMatchObject({
    connection_id: "ada",
    tags: { team: "x" },
    credentials: { type: "API_KEY", apiKey: "key-of-ada" },
  });

  const { connections } = await running.client(ConnectionService).listConnections({ environment: "dev" });
  expect(connections.map(({ ref }) => ref?.id)).toEqual(["ada"]);
});

it("refuses an import that was decided on an older revision, and changes nothing", async () => {
  const running = await startTestSidecar();
  await createIntegrations(running);
  await running.rest("POST", "/connections", { body: keyedConnection("ada") });
  const client = running.client(ConnectionService);
  const ref = { environment: "dev", integration: "keyed", id: "ada" };
  const { connection } = await client.getConnection({ ref });
  const credentials = { kind: { case: "apiKey" as const, value: { apiKey: "another" } } };
  const expectedRevision = connection?.revision ?? 0n;
  await client.importConnection({ connection: { ...ref, credentials, expectedRevision } });
  const late = client.importConnection({ connection: { ...ref, credentials, expectedRevision } });
  await expect(late).rejects.toMatchObject({ code: Code.Aborted });
});

it("ends a page before it is too large for a client of the control plane, and loses none", async () => {
  const running = await startTestSidecar();
  await createIntegrations(running);
  for (let i = 0; i < 40; i += 1) {
    const metadata = { padding: "x".repeat(100_000) };
    await running.rest("POST", "/connections", { body: keyedConnection(`large-${10 + i}`, { metadata }) });
  }
  const client = running.client(ConnectionService);
  const ids: (string | undefined)[] = [];
  let pageToken = "";
  let pages = 0;
  do {
    const page = await client.listConnections({ environment: "dev", pageToken });
    ids.push(...page.connections.map(({ ref }) => ref?.id));
    pageToken = page.nextPageToken;
    pages += 1;
  } while (pageToken !== "");
  expect(ids).toEqual(Array.from({ length: 40 }, (_, i) => `large-${10 + i}`));
  expect(pages).toBe(2);
});
