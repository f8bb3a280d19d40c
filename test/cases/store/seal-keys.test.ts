/** Seal keys that a replica lacks, at its start and while it runs. */
import { describe, expect, it, onTestFinished } from "vitest";
import { StoreService } from "../../../src/gen/latchkey/v1/store_pb.ts";
import { startPostgres } from "../../support/postgres/postgres.ts";
import {
  createIntegrations,
  keyedConnection,
  sealKey,
  startTestSidecar,
  temporaryFolder,
} from "../../support/sidecar/harness.ts";
import { lacks } from "../../support/sidecar/needs.ts";
import { launch } from "../../support/sidecar/process.ts";

const newKey = `new:${Buffer.alloc(32, 9).toString("base64")}`;
const otherKey = `test:${Buffer.alloc(32, 8).toString("base64")}`;
const lacksNew = 'the store is encrypted with the encryption key "new", which is not configured (configured: "test")';
const soon = { interval: 50 };

describe.skipIf(lacks("postgres"))("a replica without an encryption key that another one already uses", () => {
  it("is not ready, names the missing key, and reads again once it has the key", async () => {
    const server = await startPostgres();
    onTestFinished(() => server.stop());
    const env = { LATCHKEY_STORE: server.storeUrl("sealed") };
    const behind = await startTestSidecar({ env });
    await createIntegrations(behind);
    await behind.rest("POST", "/connections", { body: keyedConnection("before") });
    const ahead = await startTestSidecar({ env: { ...env, LATCHKEY_SEAL_KEYS: `${newKey},${sealKey}` } });
    const readyz = async () => {
      const answer = await fetch(`${behind.ops}/readyz`);
      return `${answer.status} ${(await answer.text()).trim()}`;
    };
    await expect.poll(readyz, soon).toBe(`503 ${lacksNew}`);
    expect(behind.logged.filter((line) => line.includes("an encryption key is missing"))).toHaveLength(1);

    // Values encrypted with the new key cannot be read, and the error is not about writes.
    await ahead.rest("POST", "/connections", { body: keyedConnection("after") });
    const at = (id: string) => `/connections/${id}?provider_config_key=keyed`;
    const refused = await behind.rest("GET", at("after"));
    expect([refused.status, refused.body.error]).toEqual([
      503,
      expect.objectContaining({ code: "store_unavailable", message: lacksNew }),
    ]);
    expect((await behind.rest("GET", at("before"))).status).toBe(200);
    for await (const _ of ahead.client(StoreService).reseal({}));
    const written = await behind.rest("POST", "/connections", { body: keyedConnection("later") });
    expect([written.status, written.body.error.message]).toEqual([503, lacksNew]);
    expect((await behind.client(StoreService).getStoreStatus({})).reason).toBe(lacksNew);
    expect(behind.logged.join("")).not.toContain("does not accept writes");

    await behind.stop();
    const again = await startTestSidecar({ env: { ...env, LATCHKEY_SEAL_KEYS: `${sealKey},${newKey}` } });
    expect((await fetch(`${again.ops}/readyz`)).status).toBe(200);
    expect((await again.rest("GET", at("after"))).body).toMatchObject({ credentials: { apiKey: "key-of-after" } });
  });

  it("is ready again when the store needs the key no more", async () => {
    const server = await startPostgres();
    onTestFinished(() => server.stop());
    const env = { LATCHKEY_STORE: server.storeUrl("sealed") };
    const behind = await startTestSidecar({ env });
    await createIntegrations(behind);
    const ahead = await startTestSidecar({ env: { ...env, LATCHKEY_SEAL_KEYS: `${newKey},${sealKey}` } });
    await expect.poll(async () => (await fetch(`${behind.ops}/readyz`)).status, soon).toBe(503);
    await ahead.stop();
    // The rotation is taken back.
    const back = await startTestSidecar({ env: { ...env, LATCHKEY_SEAL_KEYS: `${sealKey},${newKey}` } });
    for await (const _ of back.client(StoreService).reseal({}));
    await expect.poll(async () => (await fetch(`${behind.ops}/readyz`)).status, soon).toBe(200);
    expect((await behind.rest("POST", "/connections", { body: keyedConnection("after") })).status).toBe(201);
    expect(behind.logged.join("")).toContain("configured again");
  });
});

describe("a start over an embedded store", () => {
  it.each([
    [
      "without the key",
      newKey,
      'encrypted with the encryption key \\"test\\", which is not configured (configured: \\"new\\")',
    ],
    [
      "with another of its name",
      otherKey,
      'the encryption key \\"test\\" is not the one that the store was encrypted with',
    ],
  ])("%s is refused, and names it", async (_, keys, reason) => {
    const folder = await temporaryFolder();
    await (await startTestSidecar({ folder })).stop();
    const refused = launch(["serve"], { folder, env: { LATCHKEY_SEAL_KEYS: keys } });
    expect(await refused.exited).toBe(78);
    expect(refused.stdout()).toContain(reason);
  });
});
