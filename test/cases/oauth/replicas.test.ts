import { once } from "node:events";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { WebSocket } from "ws";
import { type Postgres, startPostgres } from "../../support/postgres/postgres.ts";
import { connecting, createTestBrowser, departure } from "../../support/sidecar/connecting.ts";
import { startTestSidecar } from "../../support/sidecar/harness.ts";
import { lacks } from "../../support/sidecar/needs.ts";

describe.skipIf(lacks("postgres"))("replicas over PostgreSQL", () => {
  let server: Postgres;
  beforeAll(async () => {
    server = await startPostgres();
  });
  afterAll(() => server.stop());

  it("share authorizations: one replica starts, another finishes, and the waiting page is notified", async () => {
    const store = { LATCHKEY_STORE: server.storeUrl("oauth_replicas"), LATCHKEY_PUBLIC_URL: "http://127.0.0.1:9" };
    const all = await connecting({ sidecar: { env: store } });
    const other = await startTestSidecar({ env: { ...all.environment, ...store }, files: all.files });
    const socket = new WebSocket(`${all.sidecar.data.replace("http:", "ws:")}/`);
    const [hello] = await once(socket, "message");
    const { ws_client_id } = JSON.parse(String(hello));
    const told = once(socket, "message");
    const browser = createTestBrowser();
    const back = await browser.until(departure(all, await all.session(), { ws_client_id }), "http://127.0.0.1:9/");
    const statuses = await Promise.all(
      [other, all.sidecar, other, all.sidecar].map(
        async ({ data }) => (await browser.go(back.replace("http://127.0.0.1:9", data))).status,
      ),
    );
    expect(statuses.sort()).toEqual([200, 400, 400, 400]);
    const [item] = await all.connections();
    expect(JSON.parse(String((await told)[0]))).toMatchObject({
      message_type: "success",
      connection_id: item?.connection_id,
    });
    // Also when only the other replica could have reported it.
    const again = once(socket, "message");
    const second = await browser.until(departure(all, await all.session(), { ws_client_id }), "http://127.0.0.1:9/");
    expect((await browser.go(second.replace("http://127.0.0.1:9", other.data))).status).toBe(200);
    expect(JSON.parse(String((await again)[0]))).toMatchObject({ message_type: "success" });
    socket.close();
  });
});
