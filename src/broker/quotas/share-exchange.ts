import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { digestOf, randomId } from "../../base/ids.ts";
import type { World } from "../../base/world.ts";
import { type QuotaShare, QuotaShareSchema, QuotaSharesSchema } from "../../gen/latchkey/stored/v1/stored_pb.ts";
import { type Change, StaleWrite, type Store } from "../../store/contract.ts";
import { keyOf } from "../../store/keys.ts";
import { fairShares, type QuotaDemand, sum } from "./fair-shares.ts";

/** What this replica says of a limit, and what it may use of it. */
export interface SharedQuota {
  readonly name: string;
  readonly ratePerSecond: number;
  readonly demand: QuotaDemand;
  /** Time until which the provider wants no request, in milliseconds since 1970; 0: none. */
  readonly heldUntilMs: number;
}

export interface QuotaGrant {
  readonly share: number;
  readonly heldUntilMs: number;
}

/** Divides limits among replicas through the store. */
export interface ShareExchange {
  /** Stores demands and returns shares, in the same order. Undefined: another replica was faster; ask again. */
  exchange(all: readonly SharedQuota[]): Promise<readonly QuotaGrant[] | undefined>;
  /** Gives shares back. */
  leave(names: readonly string[]): Promise<void>;
}

/** A replica that says nothing for this time has ended. */
const validMs = 5_000;

export function createShareExchange({ store, world }: { readonly store: Store; readonly world: World }): ShareExchange {
  const replica = randomId();

  async function read(names: readonly string[]) {
    const found = await store.getMany(names.map(keyFor));
    return found.map((entry) => ({
      revision: entry?.revision ?? 0,
      stored: entry === undefined ? create(QuotaSharesSchema) : fromBinary(QuotaSharesSchema, entry.value),
    }));
  }

  async function commit(changes: readonly Change[]): Promise<boolean> {
    try {
      await store.commit([...changes]);
      return true;
    } catch (error) {
      if (error instanceof StaleWrite) return false;
      throw error;
    }
  }

  return {
    async exchange(all) {
      const nowMs = world.now();
      const found = await read(all.map(({ name }) => name));
      const grants: QuotaGrant[] = [];
      const changes = all.map(({ name, ratePerSecond, demand, heldUntilMs }, i): Change => {
        const { revision, stored } = found[i] ?? { revision: 0, stored: create(QuotaSharesSchema) };
        const others = stored.shares.filter((one) => one.replica !== replica && one.untilMs > nowMs);
        const [fair = 0] = fairShares([demand, ...others], ratePerSecond);
        // Another replica may still use what it is about to give back.
        const share = Math.max(0, Math.min(fair, 1 - sum(others.map((one) => one.share))));
        const own: QuotaShare = create(QuotaShareSchema, { replica, share, ...demand, untilMs: nowMs + validMs });
        const held = Math.max(stored.heldUntilMs, heldUntilMs);
        grants.push({ share, heldUntilMs: held });
        const next = create(QuotaSharesSchema, { shares: [...others, own], heldUntilMs: held });
        return { key: keyFor(name), value: toBinary(QuotaSharesSchema, next), expect: revision };
      });
      return (await commit(changes)) ? grants : undefined;
    },
    async leave(names) {
      const found = await read(names);
      const changes = names.map((name, i): Change => {
        const { revision, stored } = found[i] ?? { revision: 0, stored: create(QuotaSharesSchema) };
        const shares = stored.shares.filter((one) => one.replica !== replica && one.untilMs > world.now());
        const next = toBinary(QuotaSharesSchema, create(QuotaSharesSchema, { ...stored, shares }));
        return { key: keyFor(name), value: shares.length === 0 ? undefined : next, expect: revision };
      });
      await commit(changes);
    },
  };
}

/** Names contain values of connections, and keys have a limited form. */
const keyFor = (name: string): string => keyOf("quota-shares", digestOf(name));
