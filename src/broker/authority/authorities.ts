import { create } from "@bufbuild/protobuf";
import type { SigningAuthority } from "../../base/certificates/authority.ts";
import { Fault } from "../../base/fault.ts";
import { randomId } from "../../base/ids.ts";
import type { World } from "../../base/world.ts";
import {
  type StoredAuthority,
  type StoredAuthorityKey,
  StoredAuthoritySchema,
} from "../../gen/latchkey/stored/v1/stored_pb.ts";
import type { AuthorityCertificate } from "../../gen/latchkey/v1/authority_pb.ts";
import type { Store, Watch } from "../../store/contract.ts";
import { follow } from "../../store/follow.ts";
import { transact } from "../../store/records.ts";
import type { Audit } from "../audit/audit.ts";
import type { AuthorityCollections } from "./authority-collections.ts";
import { authoritiesAt, newAuthorityKey, signerOf, successionAt } from "./authority-keys.ts";

/** The certificate authority of the forward proxy. Replicas share it: the first one to commit has made it. */
export interface Authorities {
  /** Makes the authority if there is none, and follows its rotations from now on. */
  start(): Promise<void>;
  /** Returns the authority that signs now. Throws before `start`. */
  signer(): SigningAuthority;
  /** Returns what programs must trust: what signs now, then what signs next. Throws `not_found` if there is none. */
  certificates(): Promise<readonly AuthorityCertificate[]>;
  /** Makes the next authority, which signs once the overlap is over. Returns what programs must trust then. */
  rotate(request: { readonly overlapMs: number }, actor: string): Promise<readonly AuthorityCertificate[]>;
  close(): void;
}

interface AuthoritiesOptions {
  readonly store: Store;
  readonly collections: AuthorityCollections;
  readonly audit: Audit;
  readonly world: World;
}

const name = "forward-proxy";
export const defaultAuthorityOverlapMs = 7 * 86_400_000;

export function openAuthorities({ store, collections, audit, world }: AuthoritiesOptions): Authorities {
  const { authorities } = collections;
  let known: readonly StoredAuthorityKey[] = [];
  const signers = new Map<string, SigningAuthority>();
  let watch: Promise<Watch> | undefined;

  const changesOf = (actor: string, action: "authority.create" | "authority.rotate", id: string) =>
    audit.changes({ actor, action, environment: "", targets: [id] });

  const note = (stored: StoredAuthority | undefined) => {
    known = stored?.keys ?? [];
  };

  function make(): Promise<StoredAuthority> {
    return transact(store, async () => {
      const before = await authorities.get(name);
      // Another replica has made the authority first.
      if (before !== undefined) return { changes: [], result: before.value };
      const id = randomId();
      const after = create(StoredAuthoritySchema, { name, keys: [await newAuthorityKey(id, world.now())] });
      return {
        changes: [...authorities.change({ before, after }), ...changesOf("latchkey", "authority.create", id)],
        result: after,
      };
    }).then(({ result }) => result);
  }

  const followChanges = () =>
    follow({
      store,
      world,
      spaces: [authorities.name],
      async read() {
        const stored = await authorities.get(name);
        return () => note(stored?.value);
      },
      onCommit({ changes, revision }) {
        for (const change of changes) {
          const read = authorities.read(change, revision);
          if (read?.parts[0] === name) note(read.value);
        }
      },
    });

  return {
    async start() {
      note(await make());
      watch ??= followChanges();
      await watch;
    },
    signer() {
      const [key] = authoritiesAt(known, world.now());
      if (key === undefined) throw new Fault("not_ready", "there is no certificate authority yet");
      const id = key.certificate?.id ?? "";
      const signer = signers.get(id) ?? signerOf(key);
      signers.set(id, signer);
      return signer;
    },
    async certificates() {
      const stored = await authorities.get(name);
      if (stored === undefined) {
        throw new Fault("not_found", "there is no certificate authority: set LATCHKEY_FORWARD_PROXY_LISTEN first");
      }
      return certificatesOf(authoritiesAt(stored.value.keys, world.now()));
    },
    async rotate({ overlapMs }, actor) {
      const { result } = await transact(store, async () => {
        const before = await authorities.get(name);
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
        const after = create(StoredAuthoritySchema, { name, keys: [...authoritiesAt(keys, nowMs)] });
        return {
          changes: [...authorities.change({ before, after }), ...changesOf(actor, "authority.rotate", id)],
          result: after,
        };
      });
      if (watch !== undefined) note(result);
      return certificatesOf(result.keys);
    },
    close: () => void watch?.then((one) => one.close()),
  };
}

const certificatesOf = (keys: readonly StoredAuthorityKey[]): readonly AuthorityCertificate[] =>
  keys.flatMap(({ certificate }) => (certificate === undefined ? [] : [certificate]));
