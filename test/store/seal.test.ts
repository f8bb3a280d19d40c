import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { createLog } from "../../src/base/log.ts";
import { createMetrics } from "../../src/base/metrics.ts";
import { openLevelStore } from "../../src/store/level.ts";
import { openSeal, SealKeyMissing } from "../../src/store/seal.ts";
import { temporaryFolder } from "../harness.ts";

const log = createLog({ level: "error", format: "json", write: () => {} });
const world = { now: Date.now, log, metrics: createMetrics() };
const key = (id: string) => ({ id, secret: randomBytes(32) });
const secret = new TextEncoder().encode("a refresh token");

async function openStore() {
  const store = await openLevelStore({ folder: join(await temporaryFolder(), "store"), log, metrics: createMetrics() });
  onTestFinished(() => store.close());
  return store;
}

it("opens what it sealed, and does not show it before", async () => {
  const seal = await openSeal({ store: await openStore(), keys: [key("a")], world });
  const sealed = seal.seal("credentials/x", secret);
  expect(Buffer.from(sealed).includes(Buffer.from(secret))).toBe(false);
  expect(Buffer.from(seal.open("credentials/x", sealed))).toEqual(Buffer.from(secret));
});

it("never seals the same thing to the same bytes", async () => {
  const seal = await openSeal({ store: await openStore(), keys: [key("a")], world });
  expect(seal.seal("k", secret)).not.toEqual(seal.seal("k", secret));
});

it("does not open what was moved to another record, or changed by a bit", async () => {
  const seal = await openSeal({ store: await openStore(), keys: [key("a")], world });
  const sealed = seal.seal("credentials/ada", secret);
  expect(() => seal.open("credentials/bob", sealed)).toThrow();
  for (const at of [1, 6, 20, sealed.length - 1]) {
    const bent = Uint8Array.from(sealed);
    bent[at] = (bent[at] ?? 0) ^ 1;
    expect(() => seal.open("credentials/ada", bent)).toThrow();
  }
});

it("goes on opening what was sealed before a new key came first", async () => {
  const store = await openStore();
  const [old, fresh] = [key("old"), key("fresh")];
  const sealed = (await openSeal({ store, keys: [old], world })).seal("k", secret);
  const rotated = await openSeal({ store, keys: [fresh, old], world });
  expect(Buffer.from(rotated.open("k", sealed))).toEqual(Buffer.from(secret));
  const resealed = rotated.seal("k", secret);
  // What is sealed from now on no longer depends on the old key's data key.
  expect(Buffer.from(resealed).readUInt32BE(1)).toBe(2);
  const again = await openSeal({ store, keys: [fresh, old], world });
  expect(Buffer.from(again.open("k", resealed))).toEqual(Buffer.from(secret));
});

it("F04 refuses to start when the seal key is gone, and names both", async () => {
  const store = await openStore();
  await openSeal({ store, keys: [key("first")], world });
  const other = openSeal({ store, keys: [key("second")], world });
  await expect(other).rejects.toBeInstanceOf(SealKeyMissing);
  await expect(other).rejects.toThrow(/"first".*"second"/);
});

it("F04 refuses to start when the seal key is another of the same name", async () => {
  const store = await openStore();
  await openSeal({ store, keys: [key("first")], world });
  await expect(openSeal({ store, keys: [key("first")], world })).rejects.toThrow(/not the one/);
});
