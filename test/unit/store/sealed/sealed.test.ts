import { createCipheriv, randomBytes } from "node:crypto";
import { join } from "node:path";
import { create, toBinary } from "@bufbuild/protobuf";
import { expect, it, onTestFinished } from "vitest";
import { createLog } from "../../../../src/base/log.ts";
import { createMetrics } from "../../../../src/base/metrics/metrics.ts";
import { DataKeySchema } from "../../../../src/gen/latchkey/stored/v1/stored_pb.ts";
import { type Backend, type Commit, StoreDamaged, StoreRefused } from "../../../../src/store/contract.ts";
import { keyOf, under } from "../../../../src/store/keys.ts";
import { openLevelStore } from "../../../../src/store/level/level.ts";
import { countSealed, reseal } from "../../../../src/store/sealed/rewrite.ts";
import { localSealKey, type SealKey, SealKeyMissing } from "../../../../src/store/sealed/seal-key.ts";
import { openSealedStore } from "../../../../src/store/sealed/sealed.ts";
import { temporaryFolder } from "../../../support/sidecar/harness.ts";

const log = createLog({ level: "error", format: "json", write: () => {} });
const world = { now: Date.now, log, metrics: createMetrics() };
const key = (id: string) => localSealKey({ id, secret: randomBytes(32) });
const bytes = (text: string) => new TextEncoder().encode(text);
const text = (value: Uint8Array | undefined) => value && new TextDecoder().decode(value);
const token = bytes("a refresh token");

async function openBackend(): Promise<Backend> {
  const backend = await openLevelStore({
    folder: join(await temporaryFolder(), "store"),
    log,
    metrics: createMetrics(),
  });
  onTestFinished(() => backend.close());
  return backend;
}

async function open(backend: Backend, keys: readonly SealKey[] = [key("a")]) {
  const store = await openSealedStore({ backend, keys, world });
  onTestFinished(() => store.close());
  return store;
}

const secret = (at: string, value = token) => ({ key: at, value, secret: true as const });

it("returns what it was given, and stores no secret in plain text", async () => {
  const backend = await openBackend();
  const store = await open(backend);
  await store.commit([secret("credentials/x"), { key: "plain", value: bytes("a name") }]);
  expect(text((await store.get("credentials/x"))?.value)).toBe("a refresh token");
  const range = { from: "a", to: "q", limit: 10 };
  expect((await store.list(range)).map(({ value }) => text(value))).toEqual(["a refresh token", "a name"]);
  expect((await store.getMany(["plain", "none"])).map((entry) => text(entry?.value))).toEqual(["a name", undefined]);
  const raw = Buffer.from((await backend.get("credentials/x"))?.value ?? []);
  expect(raw.includes(Buffer.from(token))).toBe(false);
});

it("never seals the same thing to the same bytes", async () => {
  const backend = await openBackend();
  const store = await open(backend);
  await store.commit([secret("k")]);
  const first = (await backend.get("k"))?.value;
  await store.commit([secret("k")]);
  expect((await backend.get("k"))?.value).not.toEqual(first);
});

it("refuses values that were moved to another record, swapped, or changed by a bit, secret or not", async () => {
  const backend = await openBackend();
  const store = await open(backend);
  for (const change of [secret("ada"), { key: "bob", value: bytes("a forwarding address") }]) {
    await store.commit([change]);
    const { value = new Uint8Array() } = (await backend.get(change.key)) ?? {};
    await backend.commit([{ key: "mallory", value }]);
    await expect(store.get("mallory")).rejects.toBeInstanceOf(StoreDamaged);
    for (let at = 0; at < value.length; at += 1) {
      const bent = Uint8Array.from(value);
      bent[at] = (bent[at] ?? 0) ^ 4;
      await backend.commit([{ key: change.key, value: bent }]);
      await expect(store.get(change.key)).rejects.toThrow();
    }
  }
});

it("binds values to keys of any length", async () => {
  const backend = await openBackend();
  const store = await open(backend);
  const keys = ["k", "ä".repeat(333), "k".repeat(335), "k".repeat(336), "k".repeat(1_000), "🦊".repeat(250)];
  await store.commit(keys.map((one) => secret(one, bytes(one))));
  for (const one of keys) {
    const entry = await store.get(one);
    expect(text(entry?.value)).toBe(one);
    await backend.commit([{ key: `${one}x`, value: (await backend.get(one))?.value }]);
    await expect(store.get(`${one}x`)).rejects.toBeInstanceOf(StoreDamaged);
  }
});

it("refuses a value that was written without the keys", async () => {
  const backend = await openBackend();
  const store = await open(backend);
  for (const forged of [bytes("plain"), new Uint8Array(), Buffer.concat([Buffer.of(2), randomBytes(30)])]) {
    await backend.commit([{ key: "k", value: forged }]);
    await expect(store.get("k")).rejects.toBeInstanceOf(StoreDamaged);
  }
});

it("shows commits to watchers, secret and plain", async () => {
  const store = await open(await openBackend());
  const seen: Commit[] = [];
  await store.watch(store.status().revision, {
    onCommit: (commit) => seen.push(commit),
    onLost: () => {
      throw new Error("nothing was lost");
    },
  });
  await store.commit([secret("s"), { key: "p", value: bytes("plain") }, { key: "gone", value: undefined }]);
  expect(seen[0]?.changes.map(({ key: at, value }) => [at, text(value)])).toEqual([
    ["s", "a refresh token"],
    ["p", "plain"],
    ["gone", undefined],
  ]);
});

it("still opens values from before a new key came first", async () => {
  const backend = await openBackend();
  const [old, fresh] = [key("old"), key("fresh")];
  await (await open(backend, [old])).commit([secret("k")]);
  const rotated = await open(backend, [fresh, old]);
  expect(text((await rotated.get("k"))?.value)).toBe("a refresh token");
  await rotated.commit([secret("l")]);
  const { frames } = rotated;
  // New values no longer depend on the old key's data key.
  expect(frames.epochOf((await backend.get("l"))?.value ?? new Uint8Array())).toBe(2);
  expect(frames.epochOf((await backend.get("k"))?.value ?? new Uint8Array())).toBe(1);
});

it("F04 refuses to start when the seal key is gone, and names both", async () => {
  const backend = await openBackend();
  await open(backend, [key("first")]);
  const other = openSealedStore({ backend, keys: [key("second")], world });
  await expect(other).rejects.toBeInstanceOf(SealKeyMissing);
  await expect(other).rejects.toThrow(/"first".*"second"/);
});

it("F04 refuses to start when the seal key is another of the same name", async () => {
  const backend = await openBackend();
  await open(backend, [key("first")]);
  await expect(openSealedStore({ backend, keys: [key("first")], world })).rejects.toThrow(/not the one/);
});

it("refuses a store that holds something and has lost its data keys", async () => {
  const backend = await openBackend();
  await (await open(backend)).commit([secret("k")]);
  const dataKeys = await backend.list({ ...under("seal"), limit: 10 });
  await backend.commit(dataKeys.map(({ key: at }) => ({ key: at, value: undefined })));
  await expect(openSealedStore({ backend, keys: [key("a")], world })).rejects.toBeInstanceOf(StoreRefused);
});

it("accepts the data keys of a replica that started between two looks", async () => {
  const backend = await openBackend();
  const keys = [key("a")];
  let looks = 0;
  const late: Backend = {
    ...backend,
    async list(range) {
      looks += 1;
      const found = await backend.list(range);
      // The store was empty at the first look; then another process starts and writes.
      if (looks === 1) await (await open(backend, keys)).commit([secret("k")]);
      return found;
    },
  };
  const store = await open(late, keys);
  expect(text((await store.get("k"))?.value)).toBe("a refresh token");
});

const drain = async (progress: AsyncIterable<{ readonly done: number; readonly total: number }>) => {
  const seen: string[] = [];
  for await (const { done, total } of progress) seen.push(`${done}/${total}`);
  return seen;
};

it("re-encrypts everything under the first key during writes, and then no longer needs the old one", async () => {
  const backend = await openBackend();
  const [old, fresh] = [key("old"), key("fresh")];
  const many = Array.from({ length: 1_200 }, (_, i) => `k${String(i).padStart(4, "0")}`);
  const before = await open(backend, [old, fresh]);
  await before.commit([...many.map((at) => secret(at)), { key: "plain", value: bytes("plain") }]);
  const store = await open(backend, [fresh, old]);
  const { revision } = (await store.get("plain")) ?? {};

  const seen: string[] = [];
  let turn = 0;
  for await (const { done, total } of reseal({ backend, ...store })) {
    seen.push(`${done}/${total}`);
    // A process that has not noticed writes too, before and behind the current position.
    await before.commit([secret("k0001", bytes(`written in turn ${turn}`)), secret("k1199", bytes("late"))]);
    turn += 1;
  }
  expect(seen[0]).toBe("0/1200");
  expect(seen.length).toBeGreaterThan(2);
  // Values that are not secret keep their revision, so that earlier readers can still write them.
  expect((await store.get("plain"))?.revision).toBe(revision);

  const after = await open(backend, [fresh]);
  expect(text((await after.get("k0001"))?.value)).toBe(`written in turn ${turn - 1}`);
  expect(text((await after.get("k0700"))?.value)).toBe("a refresh token");
  expect(text((await after.get("plain"))?.value)).toBe("plain");
  expect([...(await countSealed({ backend, frames: after.frames })).keys()]).toEqual([3]);
  expect(await backend.list({ ...under("seal"), limit: 10 })).toHaveLength(2);
});

it("continues an interrupted re-encryption, and still needs the old key until then", async () => {
  const backend = await openBackend();
  const [old, fresh] = [key("old"), key("fresh")];
  await (await open(backend, [old])).commit(Array.from({ length: 3_000 }, (_, i) => secret(`k${i}`)));
  const store = await open(backend, [fresh, old]);
  for await (const { done } of reseal({ backend, ...store })) if (done > 900) break;
  await expect(openSealedStore({ backend, keys: [fresh], world })).rejects.toThrow(/"old"/);

  const again = await open(backend, [fresh, old]);
  const seen = await drain(reseal({ backend, ...again }));
  expect(seen[0]).toBe("1000/3000");
  expect(seen.at(-1)).toBe("3000/3000");
  expect(text((await (await open(backend, [fresh])).get("k2999"))?.value)).toBe("a refresh token");
});

it("reads values that another replica encrypted with an unseen data key", async () => {
  const backend = await openBackend();
  const keys = [key("a")];
  const [one, other] = [await open(backend, keys), await open(backend, keys)];
  await one.keyring.begin();
  await one.commit([secret("k")]);
  expect(text((await other.get("k"))?.value)).toBe("a refresh token");
});

it("uses a key service only to wrap and unwrap data keys", async () => {
  const backend = await openBackend();
  const asked: string[] = [];
  const inner = key("kms");
  const service: SealKey = {
    id: "kms",
    wrap: (...args) => {
      asked.push("wrap");
      return inner.wrap(...args);
    },
    unwrap: (...args) => {
      asked.push("unwrap");
      return inner.unwrap(...args);
    },
  };
  const store = await open(backend, [service]);
  await store.commit(Array.from({ length: 100 }, (_, i) => secret(`k${i}`)));
  for (let i = 0; i < 100; i += 1) await store.get(`k${i}`);
  expect(asked.toSorted()).toEqual(["unwrap", "unwrap", "wrap", "wrap"]);
});

/**
 * A store from before values were authenticated: data keys bound to less, secrets encrypted, the rest in plain text.
 */
async function firstFormat(backend: Backend, { id, bytes: sealBytes }: { id: string; bytes: Buffer }): Promise<void> {
  const box = (secretBytes: Buffer, value: Uint8Array, about: Buffer) => {
    const nonce = randomBytes(12);
    const cipher = createCipheriv("aes-256-gcm", secretBytes, nonce).setAAD(about);
    return Buffer.concat([nonce, cipher.update(value), cipher.final(), cipher.getAuthTag()]);
  };
  const dataKey = randomBytes(32);
  const wrapped = box(sealBytes, dataKey, Buffer.from(`latchkey data key\0${1}\0${id}`));
  const head = Buffer.from([1, 0, 0, 0, 1]);
  const sealed = (at: string) =>
    Buffer.concat([head, box(dataKey, token, Buffer.concat([Buffer.from("latchkey value\0"), head, Buffer.from(at)]))]);
  await backend.commit([
    {
      key: keyOf("seal", "0000000001"),
      value: toBinary(DataKeySchema, create(DataKeySchema, { epoch: 1, sealKeyId: id, wrapped })),
    },
    ...Array.from({ length: 700 }, (_, i) => ({ key: `credentials\0${i}`, value: sealed(`credentials\0${i}`) })),
    ...Array.from({ length: 700 }, (_, i) => ({ key: `connection\0${i}`, value: bytes(`plain ${i}`) })),
    { key: "connection.tag\0x", value: new Uint8Array() },
  ]);
}

it("S10 authenticates a store of before values were, once, and takes that up when it was cut short", async () => {
  const backend = await openBackend();
  const sealBytes = randomBytes(32);
  await firstFormat(backend, { id: "old", bytes: sealBytes });
  const keys = [localSealKey({ id: "old", secret: sealBytes })];
  let commits = 0;
  const cutShort: Backend = {
    ...backend,
    commit(...args) {
      commits += 1;
      return commits > 3 ? Promise.reject(new Error("the power went")) : backend.commit(...args);
    },
  };
  await expect(openSealedStore({ backend: cutShort, keys, world })).rejects.toThrow("the power went");

  const store = await open(backend, keys);
  for (const at of [0, 350, 699]) {
    expect(text((await store.get(`credentials\0${at}`))?.value)).toBe("a refresh token");
    expect(text((await store.get(`connection\0${at}`))?.value)).toBe(`plain ${at}`);
  }
  expect((await store.get("connection.tag\0x"))?.value).toHaveLength(0);
  // From then on a value without a code counts as forged, also after a restart.
  await backend.commit([{ key: "connection\x005", value: bytes("forged") }]);
  const again = await open(backend, keys);
  await expect(again.get("connection\x005")).rejects.toBeInstanceOf(StoreDamaged);
  expect(text((await again.get("connection\x006"))?.value)).toBe("plain 6");
});
