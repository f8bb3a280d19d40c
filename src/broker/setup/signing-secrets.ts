import { randomBytes } from "node:crypto";
import { create } from "@bufbuild/protobuf";
import { timestampFromMs, timestampMs } from "@bufbuild/protobuf/wkt";
import { Fault } from "../../base/fault.ts";
import { digestOf, randomId } from "../../base/ids.ts";
import type { World } from "../../base/world.ts";
import type { DeclaredSigningSecrets } from "../../core/declared.ts";
import { signingSecretOf } from "../../core/notifications/webhook-signature.ts";
import { SigningSecretsSchema, type SigningSecrets as Stored } from "../../gen/latchkey/stored/v1/stored_pb.ts";
import { type Environment, type SigningSecret, SigningSecretSchema } from "../../gen/latchkey/v1/environment_pb.ts";
import type { Change, Condition, Store } from "../../store/contract.ts";
import { follow } from "../../store/follow.ts";
import { partsOf } from "../../store/keys.ts";
import { type StoredRecordOf as Read, transact } from "../../store/records.ts";
import type { Audit } from "../audit/audit.ts";
import { type SetupCollections, signingSecretsKey } from "./setup-collections.ts";
import { unknownEnvironment } from "./unknown-environment.ts";

/** Signing secrets of the environments. */
export interface SigningSecrets {
  /** Returns the secrets that sign now, newest first; at least one. Served from memory. */
  of(environment: string): Promise<readonly string[]>;
  /** Like `of`, with the details of each secret; values only if `reveal` is set. */
  list(environment: string, asked: { readonly reveal: boolean }): Promise<readonly SigningSecret[]>;
  /**
   * Creates a secret and returns it with its value. Earlier secrets also sign for at most `overlapMs`; 0 ends them at
   * once.
   */
  rotate(asked: { readonly environment: string; readonly overlapMs: number }, actor: string): Promise<SigningSecret>;
  /**
   * Returns the changes that delete an environment's secrets, for a commit with other deletions, and their conditions.
   */
  deletionOf(environment: string): Promise<{ readonly changes: Change[]; readonly conditions: Condition[] }>;
  /** Replaces the secrets that the configuration pins. */
  declare(pinned: readonly DeclaredSigningSecrets[]): Promise<void>;
  close(): void;
}

/** Default time for which the previous secret signs beside the new one. */
export const defaultOverlapMs = 24 * 3_600_000;
/**
 * Limits the secrets that sign: each adds 48 bytes to every forward. With more rotations in an overlap, the oldest ends
 * early.
 */
const maxSigning = 5;
/** Secret size, as in the examples of Standard Webhooks, which requires 24 to 64 bytes. */
const keyBytes = 32;

interface SigningSecretsOptions {
  readonly store: Store;
  readonly collections: SetupCollections;
  readonly audit: Audit;
  readonly world: World;
}

/**
 * Opens the signing secrets. The secrets of an environment are cached after its first signature, until the store's
 * watch reports a change.
 */
export async function openSigningSecrets(options: SigningSecretsOptions): Promise<SigningSecrets> {
  const { store, collections, audit, world } = options;
  const { signingSecrets, environments } = collections;
  const stored = new Map<string, readonly SigningSecret[]>();
  /** Counts changes, so that a secret read before a change is not cached. */
  let changesSeen = 0;
  const pinned = new Map<string, readonly SigningSecret[]>();
  /**
   * Secrets that signed until the file pinned another: the application learns of the new secret after Latchkey does.
   * Kept only in memory, like everything that the file pins. To keep both across a restart within that day, pin both.
   */
  const formers = new Map<string, readonly SigningSecret[]>();
  let hasDeclared = false;

  const prefixes = [signingSecrets, environments].map(({ name }) => `${name}\0`);
  const watch = await follow({
    store,
    world,
    spaces: [signingSecrets.name, environments.name],
    read: async () => () => {
      changesSeen += 1;
      stored.clear();
    },
    onCommit({ changes }) {
      for (const change of changes) {
        if (!prefixes.some((prefix) => change.key.startsWith(prefix))) continue;
        const [space, environment = ""] = partsOf(change.key);
        if (space === signingSecrets.name) forget(environment);
        // A later environment with the same name must not use these secrets.
        if (space === environments.name && change.value === undefined) formers.delete(environment);
      }
    },
  });

  function forget(environment: string): void {
    changesSeen += 1;
    stored.delete(environment);
  }

  const isSigning = ({ retiresAt }: SigningSecret): boolean =>
    retiresAt === undefined || timestampMs(retiresAt) > world.now();

  /**
   * Returns the stored or pinned secrets, including earlier ones that may have expired. Undefined: none has been
   * created yet.
   */
  async function current(environment: string): Promise<readonly SigningSecret[] | undefined> {
    const known = pinned.get(environment) ?? stored.get(environment);
    if (known !== undefined) return known;
    const seen = changesSeen;
    const found = await signingSecrets.get(environment);
    if (found !== undefined && seen === changesSeen) stored.set(environment, found.value.secrets);
    return found?.value.secrets;
  }

  function signing(environment: string, secrets: readonly SigningSecret[]): readonly SigningSecret[] {
    const beside = without(formers.get(environment) ?? [], secrets);
    return [...secrets, ...beside].filter(isSigning);
  }

  const signingOrMade = async (environment: string) =>
    signing(environment, (await current(environment)) ?? (await make(environment)));

  async function requireEnvironment(name: string): Promise<Read<Environment>> {
    const found = await environments.get(name);
    if (found === undefined) throw await unknownEnvironment(collections, name);
    return found;
  }

  const newSecret = (): SigningSecret =>
    create(SigningSecretSchema, {
      id: randomId(),
      secret: signingSecretOf(randomBytes(keyBytes)),
      createdAt: timestampFromMs(world.now()),
    });

  async function make(environment: string): Promise<readonly SigningSecret[]> {
    const { result } = await transact(store, async () => {
      const [home, before] = await Promise.all([requireEnvironment(environment), signingSecrets.get(environment)]);
      // Another replica has created the secret first.
      if (before !== undefined) return { changes: [], result: before.value.secrets };
      const after: Stored = create(SigningSecretsSchema, { environment, secrets: [newSecret()] });
      return {
        changes: [
          ...signingSecrets.change({ before, after }),
          ...audit.changes({
            actor: "latchkey",
            action: "signing_secret.create",
            environment,
            targets: after.secrets.map(({ id }) => id),
          }),
        ],
        conditions: [environments.unchanged(home)],
        result: after.secrets,
      };
    });
    return result;
  }

  return {
    of: async (environment) => (await signingOrMade(environment)).map(({ secret }) => secret),
    async list(environment, { reveal }) {
      const all = await signingOrMade(environment);
      return all.map((one) => ({ ...one, secret: reveal ? one.secret : "" }));
    },
    async rotate({ environment, overlapMs }, actor) {
      if (pinned.has(environment)) {
        throw new Fault(
          "read_only",
          `the signing secret of "${environment}" is pinned in configuration and is changed there`,
        );
      }
      const { result } = await transact(store, async () => {
        const [home, before] = await Promise.all([requireEnvironment(environment), signingSecrets.get(environment)]);
        const fresh = newSecret();
        const endsMs = world.now() + overlapMs;
        const beside = (before?.value.secrets ?? []).map((one): SigningSecret => {
          const { retiresAt } = one;
          const isSooner = retiresAt !== undefined && timestampMs(retiresAt) <= endsMs;
          return isSooner ? one : { ...one, retiresAt: timestampFromMs(endsMs) };
        });
        const secrets = [fresh, ...beside.filter(isSigning)].slice(0, maxSigning);
        const after: Stored = create(SigningSecretsSchema, { environment, secrets });
        return {
          changes: [
            ...signingSecrets.change({ before, after }),
            ...audit.changes({ actor, action: "signing_secret.rotate", environment, targets: [fresh.id] }),
          ],
          conditions: [environments.unchanged(home)],
          result: fresh,
        };
      });
      // Forget the cached secrets now, before the watch reports the change.
      forget(environment);
      return result;
    },
    async deletionOf(environment) {
      const before = await signingSecrets.get(environment);
      return before === undefined
        ? { changes: [], conditions: [{ key: signingSecretsKey(environment), expect: 0 }] }
        : { changes: signingSecrets.change({ before, after: undefined }), conditions: [] };
    },
    async declare(wanted) {
      const next = new Map(wanted.map(({ environment, secrets }) => [environment, secrets.map(pinnedSecret)]));
      // A secret that a list drops behind its newest ends at once. The former secrets keep signing only if the newest
      // changes.
      const replaced = [...new Set([...pinned.keys(), ...next.keys()])].filter(
        (name) => next.get(name)?.[0]?.secret !== pinned.get(name)?.[0]?.secret,
      );
      // At startup no secret has signed yet.
      const signed = hasDeclared ? await Promise.all(replaced.map(current)) : [];
      const retiresAt = timestampFromMs(world.now() + defaultOverlapMs);
      for (const [i, name] of replaced.entries()) {
        const former = signing(name, signed[i] ?? []).map((one) => ({ ...one, retiresAt: one.retiresAt ?? retiresAt }));
        formers.set(name, without(former, next.get(name) ?? []).slice(0, maxSigning));
      }
      pinned.clear();
      for (const [name, secrets] of next) pinned.set(name, secrets);
      hasDeclared = true;
    },
    close: () => watch.close(),
  };
}

const without = (all: readonly SigningSecret[], others: readonly SigningSecret[]): readonly SigningSecret[] =>
  all.filter((one) => others.every(({ secret }) => secret !== one.secret));

/** Identifies a pinned secret by its hash: the same id at every replica, and the secret cannot be guessed from it. */
const pinnedSecret = (secret: string): SigningSecret =>
  create(SigningSecretSchema, { id: `pinned-${digestOf(secret).slice(0, 12)}`, secret });
