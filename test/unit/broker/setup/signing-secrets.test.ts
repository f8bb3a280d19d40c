import { timestampMs } from "@bufbuild/protobuf/wkt";
import { expect, it, onTestFinished } from "vitest";
import { createAudit } from "../../../../src/broker/audit/audit.ts";
import { createCollections } from "../../../../src/broker/collections.ts";
import { openAccess } from "../../../../src/broker/setup/access.ts";
import { createEnvironments } from "../../../../src/broker/setup/environments.ts";
import { openSigningSecrets } from "../../../../src/broker/setup/signing-secrets.ts";
import { createLastUsedTimes } from "../../../../src/broker/stored/last-used.ts";
import { signingSecretOf } from "../../../../src/core/notifications/webhook-signature.ts";
import type { Backend } from "../../../../src/store/contract.ts";
import { keyOf } from "../../../../src/store/keys.ts";
import { localSealKey } from "../../../../src/store/sealed/seal-key.ts";
import { openSealedStore } from "../../../../src/store/sealed/sealed.ts";
import { openTestStore, type TestWorld, testWorld } from "../world.ts";

const dayMs = 24 * 3_600_000;
const written = /^whsec_[A-Za-z0-9+/]{43}=$/;
const [first, second, third] = [1, 2, 3].map((n) => signingSecretOf(Buffer.alloc(32, n))) as [string, string, string];

interface Slow {
  /** Delays each read of a record. */
  readonly reading?: () => Promise<void>;
  /** The delay between a commit and its watch event, as over a shared database. */
  readonly watchMs?: number;
}

/** One process with its caches, over a store that others may share. */
async function replica(backend: Backend, world: TestWorld, { reading = async () => {}, watchMs = 0 }: Slow = {}) {
  const store = await openSealedStore({
    backend,
    keys: [localSealKey({ id: "test", secret: Buffer.alloc(32, 7) })],
    world,
  });
  const collections = createCollections(store, { fieldsOf: () => [] });
  const audit = createAudit({ store, collections, world });
  const lastUsed = createLastUsedTimes({ store, world });
  const access = await openAccess({ store, collections, lastUsed, audit, world });
  const records = collections.signingSecrets;
  const signingSecrets = await openSigningSecrets({
    store:
      watchMs === 0
        ? store
        : {
            ...store,
            watch: (from, { onCommit, onLost }) =>
              store.watch(from, { onCommit: (commit) => void setTimeout(onCommit, watchMs, commit), onLost }),
          },
    collections: {
      ...collections,
      signingSecrets: {
        ...records,
        async get(...parts) {
          const found = await records.get(...parts);
          await reading();
          return found;
        },
      },
    },
    audit,
    world,
  });
  const environments = createEnvironments({
    store,
    collections,
    access,
    deletionOfSessions: async () => [],
    signingSecrets,
    audit,
    world,
  });
  onTestFinished(async () => {
    signingSecrets.close();
    access.close();
    await lastUsed.close();
    store.close();
  });
  const trail = async () =>
    (await audit.list({ environment: "", actor: "", action: "signing_secret", target: "" }, { size: 100, token: "" }))
      .items;
  const make = (name: string) =>
    environments.create({ name, forwardUrl: "", secondaryForwardUrl: "", allowedOrigins: [] }, "test");
  return { ...signingSecrets, environments, make, trail };
}

async function one(slow: Slow = {}) {
  const world = testWorld();
  const backend = await openTestStore(world);
  const own = await replica(backend, world, slow);
  await own.make("dev");
  return { ...own, world, backend };
}

const rotation = (overlapMs = dayMs, environment = "dev") => ({ environment, overlapMs });

it("creates a secret for an environment on first use, once, and encrypts it", async () => {
  const { of, world, backend, trail } = await one();
  const secrets = await Promise.all([of("dev"), of("dev"), of("dev")]);
  const [[secret = ""] = []] = secrets;
  expect(secret).toMatch(written);
  expect(secrets).toEqual([[secret], [secret], [secret]]);
  expect(await (await replica(backend, world)).of("dev")).toEqual([secret]);
  expect(await trail()).toMatchObject([{ action: "signing_secret.create", actor: "latchkey", environment: "dev" }]);

  const entry = await backend.get(keyOf("signing-secrets", "dev"));
  const everything = await backend.list({ from: "", to: "\uffff", limit: 1_000 });
  expect(entry).toBeDefined();
  for (const { value } of everything) {
    expect(Buffer.from(value).includes("whsec_")).toBe(false);
    expect(Buffer.from(value).includes(Buffer.from(secret.slice(6), "base64"))).toBe(false);
  }
});

it("creates none for an unknown environment", async () => {
  const { of, list, rotate, trail } = await one();
  const outcomes = await Promise.allSettled([
    of("prod"),
    list("prod", { reveal: true }),
    rotate(rotation(dayMs, "prod"), "test"),
  ]);
  expect(outcomes).toMatchObject(Array(3).fill({ status: "rejected", reason: { code: "unknown_environment" } }));
  expect(await trail()).toEqual([]);
});

it("agrees with another replica on a concurrent creation, and sees its rotations", async () => {
  const { world, backend, ...here } = await one();
  const there = await replica(backend, world);
  const both = await Promise.all([here.of("dev"), there.of("dev"), here.of("dev"), there.of("dev")]);
  expect(new Set(both.flat()).size).toBe(1);

  for (const [by, other] of [
    [there, here],
    [here, there],
  ] as const) {
    const { secret } = await by.rotate(rotation(), "test");
    expect((await by.of("dev"))[0]).toBe(secret);
    await expect.poll(async () => (await other.of("dev"))[0]).toBe(secret);
  }
  expect(await here.of("dev")).toEqual(await there.of("dev"));
  expect(await here.of("dev")).toHaveLength(3);
});

it("W21 signs with the former secret beside the new one until its time is over", async () => {
  const { of, list, rotate, world, trail } = await one();
  const [former = ""] = await of("dev");
  const fresh = await rotate(rotation(), "ada");
  expect(fresh.secret).toMatch(written);
  expect(await of("dev")).toEqual([fresh.secret, former]);
  const shown = await list("dev", { reveal: true });
  expect(shown.map(({ secret }) => secret)).toEqual([fresh.secret, former]);
  expect(shown.map(({ retiresAt }) => retiresAt && timestampMs(retiresAt))).toEqual([undefined, world.now() + dayMs]);
  expect((await trail())[0]).toMatchObject({ action: "signing_secret.rotate", actor: "ada", targets: [fresh.id] });

  world.advance(dayMs - 1);
  expect(await of("dev")).toEqual([fresh.secret, former]);
  world.advance(1);
  expect(await of("dev")).toEqual([fresh.secret]);
  expect(await list("dev", { reveal: false })).toMatchObject([{ id: fresh.id, secret: "" }]);
});

it("ends the former secrets at once without an overlap, and those before them", async () => {
  const { of, rotate, backend, world } = await one();
  await of("dev");
  await rotate(rotation(), "test");
  expect(await of("dev")).toHaveLength(2);
  const { secret } = await rotate(rotation(0), "test");
  expect(await of("dev")).toEqual([secret]);
  expect(await (await replica(backend, world)).of("dev")).toEqual([secret]);
});

it("lets a later rotation shorten an earlier overlap, and never lengthen it", async () => {
  const { list, rotate, world } = await one();
  const endings = async () =>
    (await list("dev", { reveal: false })).map(({ retiresAt }) => retiresAt && timestampMs(retiresAt) - world.now());
  await rotate(rotation(), "test");
  await rotate(rotation(1_000), "test");
  await rotate(rotation(), "test");
  expect(await endings()).toEqual([undefined, dayMs, 1_000]);
});

it("keeps five at most, and none whose time is over", async () => {
  const { of, rotate, world, backend } = await one();
  const made: string[] = [];
  for (let i = 0; i < 7; i += 1) made.unshift((await rotate(rotation(), "test")).secret);
  expect(await of("dev")).toEqual(made.slice(0, 5));
  const size = async () => (await backend.get(keyOf("signing-secrets", "dev")))?.value.length ?? 0;
  const full = await size();
  world.advance(dayMs);
  const { secret } = await rotate(rotation(), "test");
  expect(await of("dev")).toEqual([secret, made[0]]);
  expect(await size()).toBeLessThan(full / 2);
});

it("deletes an environment's secrets with it, so that one with its name signs with others", async () => {
  const { of, make, environments, backend } = await one();
  const before = await of("dev");
  await environments.delete({ name: "dev", expectedRevision: 0n }, "test");
  expect(await backend.get(keyOf("signing-secrets", "dev"))).toBeUndefined();
  await expect(of("dev")).rejects.toMatchObject({ code: "unknown_environment" });
  await make("dev");
  expect(await of("dev")).not.toEqual(before);
});

it("leaves no secret of an environment that is deleted during its creation", async () => {
  const { of, make, rotate, environments, backend } = await one();
  for (let i = 0; i < 20; i += 1) {
    const name = `e${i}`;
    await make(name);
    const needs = i % 2 === 0 ? of(name) : rotate(rotation(0, name), "test");
    const [, gone] = await Promise.allSettled([needs, environments.delete({ name, expectedRevision: 0n }, "test")]);
    expect(gone.status).toBe("fulfilled");
    expect(await backend.get(keyOf("signing-secrets", name))).toBeUndefined();
  }
});

it("signs with the new secret right after its rotation, before the watch reports it", async () => {
  const { of, rotate } = await one({ watchMs: 50 });
  await of("dev");
  await of("dev");
  const { secret } = await rotate(rotation(0), "test");
  expect(await of("dev")).toEqual([secret]);
});

it("caches nothing that was read before a later rotation", async () => {
  const gates: PromiseWithResolvers<void>[] = [];
  let isHeld = false;
  const { of, backend, world } = await one({
    async reading() {
      if (!isHeld) return;
      const gate = Promise.withResolvers<void>();
      gates.push(gate);
      await gate.promise;
    },
  });
  const there = await replica(backend, world);
  const [former] = await there.of("dev");
  isHeld = true;
  const early = of("dev");
  await expect.poll(() => gates.length).toBe(1);
  const { secret } = await there.rotate(rotation(0), "test");
  isHeld = false;
  gates[0]?.resolve();
  expect(await early).toEqual([former]);
  expect(await of("dev")).toEqual([secret]);
});

it.each(["make", "rotate"])("does not %s one for an environment that is deleted in the meantime", async (what) => {
  const gate = Promise.withResolvers<void>();
  let reads = 0;
  const { of, rotate, backend, world } = await one({
    async reading() {
      reads += 1;
      // Before creation it is read again, with the commit's conditions.
      if (reads === (what === "make" ? 2 : 1)) await gate.promise;
    },
  });
  const there = await replica(backend, world);
  const asked = what === "make" ? of("dev") : rotate(rotation(), "test");
  const refused = expect(asked).rejects.toMatchObject({ code: "unknown_environment" });
  await expect.poll(() => reads).toBe(what === "make" ? 2 : 1);
  await there.environments.delete({ name: "dev", expectedRevision: 0n }, "test");
  gate.resolve();
  await refused;
  expect(await backend.get(keyOf("signing-secrets", "dev"))).toBeUndefined();
});

it("signs with configured secrets, in order, without storing or rotating them", async () => {
  const { of, list, rotate, declare, backend } = await one();
  await declare([{ environment: "dev", secrets: [first, second] }]);
  expect(await of("dev")).toEqual([first, second]);
  const shown = await list("dev", { reveal: false });
  expect(shown.map(({ secret }) => secret)).toEqual(["", ""]);
  expect(new Set(shown.map(({ id }) => id)).size).toBe(2);
  expect((await list("dev", { reveal: true })).map(({ secret }) => secret)).toEqual([first, second]);
  await expect(rotate(rotation(), "test")).rejects.toMatchObject({ code: "read_only" });
  expect(await backend.get(keyOf("signing-secrets", "dev"))).toBeUndefined();
});

it("W21 signs with a configured secret for a day after the file replaces it", async () => {
  const { of, declare, world } = await one();
  const pin = (...secrets: string[]) => declare([{ environment: "dev", secrets }]);
  await pin(first);
  await pin(second);
  expect(await of("dev")).toEqual([second, first]);
  world.advance(dayMs / 2);
  await pin(second);
  await pin(third);
  expect(await of("dev")).toEqual([third, second, first]);
  world.advance(dayMs / 2);
  expect(await of("dev")).toEqual([third, second]);
  world.advance(dayMs / 2);
  expect(await of("dev")).toEqual([third]);
});

it("ends secrets dropped from a list at once, and signs once with a repeated one", async () => {
  const { of, declare } = await one();
  const pin = (...secrets: string[]) => declare([{ environment: "dev", secrets }]);
  await pin(first, second);
  await pin(first);
  expect(await of("dev")).toEqual([first]);
  await pin(third, first);
  expect(await of("dev")).toEqual([third, first]);
  await pin(third);
  expect(await of("dev")).toEqual([third]);
});

it("forgets configured secrets when the environment is deleted", async () => {
  const { of, declare, environments, make } = await one();
  await declare([{ environment: "dev", secrets: [first] }]);
  await declare([]);
  expect(await of("dev")).toContain(first);
  await environments.delete({ name: "dev", expectedRevision: 0n }, "test");
  await make("dev");
  expect(await of("dev")).not.toContain(first);
});

it("changes between its own and a configured secret with an overlap, but not at a start", async () => {
  const { of, declare, world, backend } = await one();
  const [own = ""] = await of("dev");
  await declare([]);
  await declare([{ environment: "dev", secrets: [first] }]);
  expect(await of("dev")).toEqual([first, own]);
  await declare([]);
  expect(await of("dev")).toEqual([own, first]);
  world.advance(dayMs);
  expect(await of("dev")).toEqual([own]);

  const again = await replica(backend, world);
  await again.declare([{ environment: "dev", secrets: [second] }]);
  expect(await again.of("dev")).toEqual([second]);
});
