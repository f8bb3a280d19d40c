import { describe, expect, it } from "vitest";
import { createLog } from "../../../src/base/log.ts";
import { createMetrics } from "../../../src/base/metrics/metrics.ts";
import { ConnectionService } from "../../../src/gen/latchkey/v1/connection_pb.ts";
import { IntegrationService } from "../../../src/gen/latchkey/v1/integration_pb.ts";
import { StoreService } from "../../../src/gen/latchkey/v1/store_pb.ts";
import { openBackend } from "../../../src/store/open.ts";
import { secretKey } from "../../support/sidecar/harness.ts";
import { provider, startRenewing } from "../../support/sidecar/renewing.ts";

const faultOf = (response: Response) => response.headers.get("latchkey-error");
const at = `/connections/ada?provider_config_key=${provider}`;

/** A provider that has rotated the token but delays its answer, and a call that waits for it. */
async function startHeld() {
  let now = Date.now();
  const renewing = await startRenewing({
    now: () => now,
    sandbox: { now: () => now, behaviour: { answers: { token: [{ kind: "ordinary", holdMs: 700, times: 1 }] } } },
  });
  const before = await renewing.connectAda();
  const calling = renewing.get();
  await expect.poll(renewing.renewals, { interval: 5 }).toBe(1);
  const { tallies } = renewing.sandbox.seen();
  expect(tallies.refreshes).toBe(1);
  /** No token is lost: the next refresh succeeds too. */
  const staysRenewable = async () => {
    const asked = renewing.renewals();
    now += 7_200_000;
    expect((await renewing.get()).status).toBe(200);
    expect(renewing.renewals()).toBe(asked + 1);
    const { supersededReused, supersededInGrace } = renewing.sandbox.seen().tallies;
    expect([supersededReused, supersededInGrace]).toEqual([0, 0]);
    expect((await renewing.show("&credentials=false")).errors).toEqual([]);
  };
  return { ...renewing, before, calling, staysRenewable };
}

describe("during a token request", () => {
  it("metadata, tags and configuration change, and no change is lost", async () => {
    const { sidecar, calling, show, before, staysRenewable, renewals } = await startHeld();
    const patches = Array.from({ length: 40 }, (_, i) =>
      sidecar.rest("PATCH", "/connection/metadata", {
        body: { connection_id: "ada", provider_config_key: provider, metadata: { [`field${i}`]: i } },
      }),
    );
    const tagged = sidecar.rest("PATCH", at, { body: { tags: { team: "red" } } });
    for (const { status } of await Promise.all([...patches, tagged])) expect(status).toBe(200);
    expect((await calling).status).toBe(200);
    const { metadata, tags, credentials } = await show("&refresh_token=true");
    expect(Object.keys(metadata)).toHaveLength(40);
    expect(tags).toEqual({ team: "red" });
    expect(credentials.refresh_token).not.toBe(before.refresh_token);
    expect(renewals()).toBe(1);
    await staysRenewable();
  });

  it("metadata changes without a pause, before, during and after", async () => {
    const { sidecar, calling, show, staysRenewable } = await startHeld();
    let done = 0;
    let isOver = false;
    const called = calling.finally(() => {
      isOver = true;
    });
    const patching = Array.from({ length: 4 }, async (_, lane) => {
      // The writes stop after the call, and not before there were many of them.
      for (let i = 0; !isOver || done < 40; i += 1) {
        const body = { connection_id: "ada", provider_config_key: provider, metadata: { [`lane${lane}`]: i } };
        const { status } = await sidecar.rest("PATCH", "/connection/metadata", { body });
        expect(status).toBe(200);
        done += 1;
      }
    });
    // However many writes compete with it, the write of the token is committed: else neither would end.
    expect((await called).status).toBe(200);
    await Promise.all(patching);
    expect(done).toBeGreaterThanOrEqual(40);
    expect(Object.keys((await show()).metadata)).toHaveLength(4);
    await staysRenewable();
  });

  it("the end user authorizes again: those credentials stay", async () => {
    const { sandbox, sidecar, calling, show, get, renewals } = await startHeld();
    const { access_token, refresh_token } = sandbox.grant();
    const credentials = { type: "OAUTH2", access_token, refresh_token };
    const body = { provider_config_key: provider, connection_id: "ada", credentials };
    expect((await sidecar.rest("POST", "/connections", { body })).status).toBe(201);
    expect((await calling).status).toBe(200);
    const shown = (await show("&refresh_token=true")).credentials;
    expect([shown.access_token, shown.refresh_token]).toEqual([access_token, refresh_token]);
    expect((await get()).status).toBe(200);
    expect(sandbox.seen().last.files?.at(-1)?.headers.authorization).toBe(`Bearer ${access_token}`);
    expect(renewals()).toBe(1);
  });

  it("new expired credentials are imported: they are refreshed before use", async () => {
    const { sandbox, sidecar, calling, call, show, renewals } = await startHeld();
    const { access_token, refresh_token } = sandbox.grant();
    const expires_at = new Date(Date.now() - 10_000).toISOString();
    const credentials = { type: "OAUTH2", access_token, refresh_token, expires_at };
    const body = { provider_config_key: provider, connection_id: "ada", credentials };
    expect((await sidecar.rest("POST", "/connections", { body })).status).toBe(201);
    const files = () => sandbox.seen().last.files ?? [];
    // A request with a body is not repeated: it must have the right token at once.
    const posted = call(provider, "/upload/drive/v3/files?uploadType=media", { method: "POST", body: "x" });
    expect([(await calling).status, (await posted).status]).toEqual([200, 200]);
    for (const { headers } of files()) expect(headers.authorization).not.toBe(`Bearer ${access_token}`);
    expect((await show("&refresh_token=true")).credentials.refresh_token).not.toBe(refresh_token);
    expect(renewals()).toBe(2);
    expect(sandbox.seen().tallies.supersededReused).toBe(0);
  });

  it("everything is re-encrypted, and the rotated token is kept", async () => {
    const { sidecar, calling, before, show, staysRenewable, renewals } = await startHeld();
    const steps: bigint[] = [];
    for await (const { done } of sidecar.client(StoreService).reseal({})) steps.push(done);
    expect(Number(steps.at(-1))).toBeGreaterThan(0);
    expect(renewals()).toBe(1);
    expect((await calling).status).toBe(200);
    expect((await show("&refresh_token=true")).credentials.refresh_token).not.toBe(before.refresh_token);
    expect(renewals()).toBe(1);
    await staysRenewable();
  });

  it("the integration changes, and the rotated token is kept", async () => {
    const { sidecar, calling, before, show, staysRenewable } = await startHeld();
    await sidecar.client(IntegrationService).updateIntegration({
      integration: { key: provider, displayName: "Another name", secrets: { clientSecret: "sandbox-secret" } },
      updateMask: { paths: ["display_name", "secrets.client_secret"] },
    });
    expect((await calling).status).toBe(200);
    expect((await show("&refresh_token=true")).credentials.refresh_token).not.toBe(before.refresh_token);
    await staysRenewable();
  });

  it("the connection is deleted: nothing of it is left but the report of its grant", async () => {
    const { sidecar, calling, renewals } = await startHeld();
    const ref = { environment: "dev", integration: provider, id: "ada" };
    await sidecar.client(ConnectionService).deleteConnection({ ref });
    const response = await calling;
    expect([response.status, faultOf(response)]).toEqual([404, "unknown_connection"]);
    expect(renewals()).toBe(1);
    expect(await sidecar.metric('latchkey_refreshes_total{outcome="overtaken"}')).toBe(1);
    await sidecar.stop();
    const keys = await keysIn(sidecar.folder);
    expect(keys.length).toBeGreaterThan(5);
    const isOfAda = (key: string) => key.split("/").includes("ada") || key.startsWith("lease") || key.startsWith("log");
    // What is left tells what became of the grant at the provider, and holds no credentials.
    const told =
      keys
        .find((key) => key.startsWith("log.operation/dev/connection.revoke/"))
        ?.split("/")
        .at(-1) ?? "none";
    const isTold = (key: string) => key.startsWith("revocation") || key.endsWith(`/${told}`);
    expect(keys.filter((key) => isOfAda(key) && !isTold(key))).toEqual([]);
  });

  it("the connection is deleted and created again with other credentials: the answer is discarded", async () => {
    const { sandbox, sidecar, calling, show, get } = await startHeld();
    const ref = { environment: "dev", integration: provider, id: "ada" };
    await sidecar.client(ConnectionService).deleteConnection({ ref });
    const { access_token, refresh_token } = sandbox.grant();
    const credentials = { type: "OAUTH2", access_token, refresh_token };
    const body = { provider_config_key: provider, connection_id: "ada", credentials };
    expect((await sidecar.rest("POST", "/connections", { body })).status).toBe(201);
    expect((await calling).status).toBe(200);
    expect((await show("&refresh_token=true")).credentials).toMatchObject({ access_token, refresh_token });
    expect((await get()).status).toBe(200);
  });
});

describe("an endpoint that was down for all", () => {
  it("is retried by callers that are due, and the others do not block them", async () => {
    let now = Date.now();
    const { sandbox, sidecar, connectAda, renewals } = await startRenewing({
      now: () => now,
      sandbox: { now: () => now, behaviour: { answers: { token: [{ kind: "error", status: 503, error: "down" }] } } },
    });
    await connectAda();
    const expires_at = new Date(now - 60_000).toISOString();
    for (let i = 0; i < 7; i += 1) {
      const { access_token, refresh_token } = sandbox.grant();
      const credentials = { type: "OAUTH2", access_token, refresh_token, expires_at };
      const body = { provider_config_key: provider, connection_id: `c${i}`, credentials };
      expect((await sidecar.rest("POST", "/connections", { body })).status).toBe(201);
    }
    const statusOf = async (id: string) => {
      const headers = { authorization: `Bearer ${secretKey}`, "provider-config-key": provider, "connection-id": id };
      return (await fetch(`${sidecar.data}/proxy/drive/v3/files`, { headers })).status;
    };
    for (const id of ["c0", "c1", "c2", "c3", "c4"]) expect(await statusOf(id)).toBe(503);
    expect(await statusOf("c5")).toBe(503);
    expect(renewals()).toBe(5);
    sandbox.behave({ answers: { token: [] } });
    // The endpoint may be called again, but not for a connection that failed a moment ago.
    now += 6_000;
    expect(await statusOf("c0")).toBe(503);
    expect(await statusOf("c5")).toBe(200);
    expect(await statusOf("c6")).toBe(200);
    expect(renewals()).toBe(7);
  });
});

/** Every key of a closed store. */
async function keysIn(folder: string): Promise<readonly string[]> {
  const log = createLog({ level: "error", format: "json", write: () => {} });
  const backend = await openBackend({ kind: "level", folder }, { log, metrics: createMetrics() });
  const all = await backend.list({ from: "\x01", to: "\u{10ffff}", limit: 100_000 });
  await backend.close();
  return all.map(({ key }) => key.replaceAll("\0", "/"));
}
