import type { SigningAuthority } from "../../base/certificates/authority.ts";
import { Fault } from "../../base/fault.ts";
import type { World } from "../../base/world.ts";
import type { StoredAuthority, StoredAuthorityKey } from "../../gen/latchkey/stored/v1/stored_pb.ts";
import type { AuthorityCertificate } from "../../gen/latchkey/v1/authority_pb.ts";
import type { Store, Watch } from "../../store/contract.ts";
import { follow } from "../../store/follow.ts";
import type { Audit } from "../audit/audit.ts";
import type { AuthorityCollections } from "./authority-collections.ts";
import { authoritiesAt, signerOf } from "./authority-keys.ts";
import { authorityName, createAuthorityWrites } from "./authority-writes.ts";

/** The certificate authority of the forward proxy. Replicas share it: the first one to commit has made it. */
export interface Authorities {
  /** Makes the authority if there is none, and follows its rotations from now on. */
  start(): Promise<void>;
  /** Returns the authority that signs now. Throws before `start`. */
  signer(): SigningAuthority;
  /** Returns the same as `certificates`, from memory. Empty before `start`. */
  known(): readonly AuthorityCertificate[];
  /** Calls the function after each rotation, from `start` on. Returns a function that ends this. */
  listen(onChange: () => void): () => void;
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

export const defaultAuthorityOverlapMs = 7 * 86_400_000;

export function openAuthorities({ store, collections, audit, world }: AuthoritiesOptions): Authorities {
  const { authorities } = collections;
  let known: readonly StoredAuthorityKey[] = [];
  const signers = new Map<string, SigningAuthority>();
  const listeners = new Set<() => void>();
  let watch: Promise<Watch> | undefined;

  const writes = createAuthorityWrites({ store, collections, audit, world });

  const note = (stored: StoredAuthority | undefined) => {
    known = stored?.keys ?? [];
    for (const tell of listeners) tell();
  };

  const followChanges = () =>
    follow({
      store,
      world,
      spaces: [authorities.name],
      async read() {
        const stored = await authorities.get(authorityName);
        return () => note(stored?.value);
      },
      onCommit({ changes, revision }) {
        for (const change of changes) {
          const read = authorities.read(change, revision);
          if (read?.parts[0] === authorityName) note(read.value);
        }
      },
    });

  async function begin(): Promise<Watch> {
    note(await writes.make());
    return followChanges();
  }

  return {
    async start() {
      watch ??= begin();
      try {
        await watch;
      } catch (error) {
        // The next call tries again.
        watch = undefined;
        throw error;
      }
    },
    signer() {
      const [key] = authoritiesAt(known, world.now());
      if (key === undefined) throw new Fault("not_ready", "there is no certificate authority yet");
      const id = key.certificate?.id ?? "";
      const signer = signers.get(id) ?? signerOf(key);
      signers.set(id, signer);
      return signer;
    },
    known: () => certificatesOf(authoritiesAt(known, world.now())),
    listen(onChange) {
      listeners.add(onChange);
      return () => listeners.delete(onChange);
    },
    async certificates() {
      const stored = await authorities.get(authorityName);
      if (stored === undefined) {
        throw new Fault("not_found", "there is no certificate authority: set LATCHKEY_FORWARD_PROXY_LISTEN first");
      }
      return certificatesOf(authoritiesAt(stored.value.keys, world.now()));
    },
    async rotate({ overlapMs }, actor) {
      const result = await writes.rotate(overlapMs, actor);
      if (watch !== undefined) note(result);
      return certificatesOf(result.keys);
    },
    close: () => void watch?.then((one) => one.close()).catch(() => {}),
  };
}

const certificatesOf = (keys: readonly StoredAuthorityKey[]): readonly AuthorityCertificate[] =>
  keys.flatMap(({ certificate }) => (certificate === undefined ? [] : [certificate]));
