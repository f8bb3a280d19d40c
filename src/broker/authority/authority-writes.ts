import { create } from "@bufbuild/protobuf";
import { Fault } from "../../base/fault.ts";
import { randomId } from "../../base/ids.ts";
import type { World } from "../../base/world.ts";
import { type StoredAuthority, StoredAuthoritySchema } from "../../gen/latchkey/stored/v1/stored_pb.ts";
import type { Store } from "../../store/contract.ts";
import { transact } from "../../store/records.ts";
import type { Audit } from "../audit/audit.ts";
import type { AuthorityCollections } from "./authority-collections.ts";
import { authoritiesAt, newAuthorityKey, successionAt } from "./authority-keys.ts";

/** Stores the authority. */
export interface AuthorityWrites {
  /** Makes the authority if there is none. */
  make(): Promise<StoredAuthority>;
  /** Makes the next one. */
  rotate(overlapMs: number, actor: string): Promise<StoredAuthority>;
}

interface AuthorityWritesOptions {
  readonly store: Store;
  readonly collections: AuthorityCollections;
  readonly audit: Audit;
  readonly world: World;
}

export const authorityName = "forward-proxy";

export function createAuthorityWrites({ store, collections, audit, world }: AuthorityWritesOptions): AuthorityWrites {
  const { authorities } = collections;

  const changesOf = (actor: string, action: "authority.create" | "authority.rotate", id: string) =>
    audit.changes({ actor, action, environment: "", targets: [id] });

  return {
    async make() {
      const { result } = await transact(store, async () => {
        const before = await authorities.get(authorityName);
        // Another replica has made the authority first.
        if (before !== undefined) return { changes: [], result: before.value };
        const id = randomId();
        const keys = [await newAuthorityKey(id, world.now())];
        const after = create(StoredAuthoritySchema, { name: authorityName, keys });
        return {
          changes: [...authorities.change({ before, after }), ...changesOf("latchkey", "authority.create", id)],
          result: after,
        };
      });
      return result;
    },
    async rotate(overlapMs, actor) {
      const { result } = await transact(store, async () => {
        const before = await authorities.get(authorityName);
        const nowMs = world.now();
        const current = authoritiesAt(before?.value.keys ?? [], nowMs);
        if (current.length > 1 && overlapMs > 0) {
          throw new Fault(
            "conflict",
            "the last rotation is still in its overlap; wait for its end, or rotate with --overlap 0s",
          );
        }
        const id = randomId();
        const keys = successionAt(current, await newAuthorityKey(id, nowMs), nowMs + overlapMs);
        const after = create(StoredAuthoritySchema, { name: authorityName, keys: [...authoritiesAt(keys, nowMs)] });
        return {
          changes: [...authorities.change({ before, after }), ...changesOf(actor, "authority.rotate", id)],
          result: after,
        };
      });
      return result;
    },
  };
}
