import { timestampMs } from "@bufbuild/protobuf/wkt";
import { LRUCache } from "lru-cache";
import { Fault } from "../base/fault.ts";
import type { World } from "../base/world.ts";
import { type Caller, callerOfKey, type RequestBudget } from "../broker/setup/caller.ts";
import { compileAudience } from "../core/access/audience.ts";
import type { EdgeAccessSession, EdgeHello, EdgeKey } from "../gen/latchkey/v1/edge_pb.ts";
import type { EdgeBudgets } from "./edge-budgets.ts";

/** A key or an access session in memory. */
export interface KnownCaller {
  readonly digest: Uint8Array;
  readonly version: Uint8Array;
  readonly caller: Caller;
  readonly expiresAtMs: number;
  /** When its use was last noted. */
  usedAt: number;
}

/** The keys that callers of this process have sent, by their hash. */
export interface KeyMemory {
  /** Returns a key by the hash, in hexadecimal, of its secret. */
  peek(digest: string): KnownCaller | undefined;
  /** Returns whether a broker said a moment ago that there is no such key. */
  isUnknown(digest: string): boolean;
  /** Returns the key of a caller, as long as it is in memory. */
  ofCaller(caller: Caller): KnownCaller | undefined;
  /** Returns the hash of the secret that a caller has sent, also if the key is not in memory any more. */
  digestOf(caller: Caller): string | undefined;
  apply(message: EdgeKey): void;
  clear(): void;
  versions(): EdgeHello["keys"];
}

interface KeyMemoryOptions {
  readonly onEvict: (digest: Uint8Array) => void;
  readonly budgets: EdgeBudgets;
  readonly world: World;
}

/** `EdgeHello.keys` takes no more. */
const maxKeys = 10_000;
/** For so long, a key that does not exist is not asked for again. */
const unknownMs = 1_000;
const maxUnknown = 1_000;

export function createKeyMemory({ onEvict, budgets, world }: KeyMemoryOptions): KeyMemory {
  const { metrics } = world;
  const unknown = new LRUCache<string, true>({ max: maxUnknown, ttl: unknownMs });
  const callers = new Map<Caller, KnownCaller>();
  const digests = new WeakMap<Caller, string>();
  const keys = new LRUCache<string, KnownCaller>({
    max: maxKeys,
    dispose(held, _digest, why) {
      callers.delete(held.caller);
      if (why === "evict") onEvict(held.digest);
    },
  });
  const showCount = () => metrics.edgeHeld.set({ kind: "key" }, keys.size);

  return {
    peek: (digest) => keys.get(digest),
    isUnknown: (digest) => unknown.has(digest),
    ofCaller: (caller) => callers.get(caller),
    digestOf: (caller) => digests.get(caller),
    apply({ requestId, digest: bytes, version, key, session }) {
      const digest = Buffer.from(bytes).toString("hex");
      // The broker had not read yet that the key was forgotten, and tells about it only this once.
      if (requestId === 0n && !keys.has(digest)) {
        unknown.delete(digest);
        return;
      }
      if (key === undefined) {
        keys.delete(digest);
        unknown.set(digest, true);
      } else {
        const { expiresAt } = key;
        const expiresAtMs = expiresAt === undefined ? Number.POSITIVE_INFINITY : timestampMs(expiresAt);
        const ofKey = callerOfKey(key);
        const caller =
          session === undefined
            ? ofKey
            : sessionCallerOf(ofKey, session, {
                expiresAtMs,
                budget: session.hasBudget ? budgets.of(bytes) : undefined,
              });
        const held = { digest: bytes, version, caller, expiresAtMs, usedAt: 0 };
        unknown.delete(digest);
        keys.set(digest, held);
        callers.set(caller, held);
        digests.set(caller, digest);
      }
      showCount();
    },
    clear() {
      keys.clear();
      unknown.clear();
      showCount();
    },
    versions: () =>
      [...keys.values()].map(({ digest, version }) => ({ $typeName: "latchkey.v1.HeldKey", digest, version })),
  };
}

interface HeldSession {
  readonly expiresAtMs: number;
  readonly budget: RequestBudget | undefined;
}

function sessionCallerOf(
  ofKey: Caller,
  { id, audience }: EdgeAccessSession,
  { expiresAtMs, budget }: HeldSession,
): Caller {
  return {
    keyId: ofKey.keyId,
    environment: ofKey.environment,
    scopes: ofKey.scopes,
    limits: ofKey.limits,
    accessSession: {
      id,
      expiresAtMs,
      isStale: false,
      audience: compileAudience(audience),
      budget,
    },
  };
}

export const unknownKey = (message = "the key is not known"): Fault =>
  new Fault("unknown_key", message, { hint: 'create a key with "latchkey keys create"' });
