import { create } from "@bufbuild/protobuf";
import { timestampFromMs, timestampMs } from "@bufbuild/protobuf/wkt";
import { Fault } from "../../base/fault.ts";
import { newSecretKey } from "../../base/ids.ts";
import type { World } from "../../base/world.ts";
import { type Key, KeySchema } from "../../gen/latchkey/v1/environment_pb.ts";
import type { Store } from "../../store/contract.ts";
import { transact } from "../../store/records.ts";
import type { Audit } from "../audit/audit.ts";
import { requireRevision } from "../stored/conflict.ts";
import type { KnownKeys } from "./authentication.ts";
import { expiryAt, type KeyChanges } from "./key-changes.ts";
import type { SetupCollections } from "./setup-collections.ts";

export interface KeyRotation {
  readonly id: string;
  /** Empty: the old id with the next number. */
  readonly newId: string;
  readonly overlapMs: number;
  readonly expiresAtMs: number | undefined;
  readonly expectedRevision: bigint;
}

export interface RotatedKey {
  readonly key: Key;
  readonly secret: string;
  /** The old key; undefined if it was deleted. */
  readonly previous: Key | undefined;
}

/** Creates a successor with the same environment, scopes and limits; the old key ends after the overlap. */
export type RotateKey = (request: KeyRotation, actor: string) => Promise<RotatedKey>;

interface KeyRotationOptions {
  readonly store: Store;
  readonly collections: SetupCollections;
  readonly keys: Pick<KnownKeys, "isDeclared" | "isTaken">;
  readonly changes: KeyChanges;
  readonly audit: Audit;
  readonly world: World;
}

export function createKeyRotation(options: KeyRotationOptions): RotateKey {
  const { store, collections, keys, changes, audit, world } = options;

  function requireUnused(id: string): void {
    if (keys.isTaken(id)) throw new Fault("already_exists", `there is a key "${id}" already`);
  }

  return async ({ id, newId: asked, overlapMs, expiresAtMs, expectedRevision }, actor) => {
    if (keys.isDeclared(id)) {
      throw new Fault("read_only", `the key "${id}" is declared in the configuration; change it there`);
    }
    if (asked !== "") requireUnused(asked);
    const secret = newSecretKey();
    const { result, revision } = await transact(store, async () => {
      await store.caughtUp();
      const before = await collections.keys.get(id);
      if (before === undefined) throw new Fault("not_found", `there is no key "${id}"`);
      requireRevision(before, expectedRevision);
      const newId = asked === "" ? nextId(id, keys.isTaken) : asked;
      requireUnused(newId);
      const { environment, scopes, expiresAt, limits } = before.value;
      const now = world.now();
      const key = create(KeySchema, {
        id: newId,
        environment,
        scopes: [...scopes],
        createdAt: timestampFromMs(now),
        createdBy: actor,
        replaces: id,
        ...(limits && { limits }),
        ...expiryAt(expiresAtMs),
      });
      const endsMs = Math.min(
        now + overlapMs,
        expiresAt === undefined ? Number.POSITIVE_INFINITY : timestampMs(expiresAt),
      );
      const previous = overlapMs === 0 ? undefined : { ...before.value, expiresAt: timestampFromMs(endsMs) };
      return {
        changes: [
          ...changes.addition(key, secret),
          ...(previous === undefined ? changes.deletion(before) : collections.keys.change({ before, after: previous })),
          ...audit.changes({ actor, action: "key.rotate", environment, targets: [id, newId] }),
        ],
        result: { key, previous },
      };
    });
    const at = { revision: BigInt(revision) };
    return { key: { ...result.key, ...at }, secret, previous: result.previous && { ...result.previous, ...at } };
  };
}

/** The longest name of a key. */
const mostIdLength = 64;

/** Returns the name of a successor: `app-2` for `app`, `app-3` for `app-2`. */
function nextId(id: string, isTaken: (id: string) => boolean): string {
  const [, stem = id, count = "1"] = /^(.+?)-(\d{1,6})$/.exec(id) ?? [];
  for (let next = Number(count) + 1; ; next += 1) {
    const ending = `-${next}`;
    const name = `${stem.slice(0, mostIdLength - ending.length)}${ending}`;
    if (!isTaken(name)) return name;
  }
}
