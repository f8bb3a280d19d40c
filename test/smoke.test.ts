import { Code } from "@connectrpc/connect";
import { expect, it } from "vitest";
import { ConnectionService } from "../src/gen/latchkey/v1/connection_pb.ts";
import { furnish, keyedConnection, startTestSidecar } from "./harness.ts";

it("imports a connection over JSON and shows it over gRPC", async () => {
  const running = await startTestSidecar();
  await furnish(running);
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
  await furnish(running);
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
