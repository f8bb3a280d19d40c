import { randomBytes } from "node:crypto";
import { create } from "@bufbuild/protobuf";
import { timestampFromMs, timestampMs } from "@bufbuild/protobuf/wkt";
import { Fault } from "../../base/fault.ts";
import { randomId } from "../../base/ids.ts";
import type { World } from "../../base/world.ts";
import type { DeclaredSigningSecrets } from "../../core/declared.ts";
import { signingSecretOf } from "../../core/notifications/webhook-signature.ts";
import { SigningSecretsSchema, type SigningSecrets as Stored } from "../../gen/latchkey/stored/v1/stored_pb.ts";
import { type Environment, type SigningSecret, SigningSecretSchema } from "../../gen/latchkey/v1/environment_pb.ts";
import type { Change, Condition, Store } from "../../store/contract.ts";
import { type StoredRecordOf as Read, transact } from "../../store/records.ts";
import type { Audit } from "../audit/audit.ts";
import { createPinnedSecrets, isSigning, maxSigning } from "./pinned-secrets.ts";
import { type SetupCollections, signingSecretsKey } from "./setup-collections.ts";
import { openSigningSecretCache } from "./signing-secret-cache.ts";
import { unknownEnvironment } from "./unknown-environment.ts";

/** Signing secrets of the environments. */
export interface SigningSecrets {
  /** Returns the secrets that sign now, newest first; at least one. Served from memory. */
  of(environment: string): Promise<readonly string[]>;
  /** Like `of`, with the details of each secret; values only if `reveal` is set. */
  list(environment: string, request: { readonly reveal: boolean }): Promise<readonly SigningSecret[]>;
  /**
   * Creates a secret and returns it with its value. Earlier secrets also sign for at most `overlapMs`; 0 ends them at
   * once.
   */
  rotate(request: { readonly environment: string; readonly overlapMs: number }, actor: string): Promise<SigningSecret>;
  /**
   * Returns the changes that delete an environment's secrets, for a commit with other deletions, and their conditions.
   */
  deletionOf(environment: string): Promise<{ readonly changes: Change[]; readonly conditions: Condition[] }>;
  /** Replaces the secrets that the configuration pins. */
  declare(pinned: readonly DeclaredSigningSecrets[]): Promise<void>;
  close(): void;
}

/** Secret size, as in the examples of Standard Webhooks, which requires 24 to 64 bytes. */
const keyBytes = 32;

interface SigningSecretsOptions {
  readonly store: Store;
  readonly collections: SetupCollections;
  readonly audit: Audit;
  readonly world: World;
}

export async function openSigningSecrets(options: SigningSecretsOptions): Promise<SigningSecrets> {
  const { store, collections, audit, world } = options;
  const { signingSecrets, environments } = collections;
  const pinned = createPinnedSecrets(world.now);
  const stored = await openSigningSecretCache({
    store,
    collections,
    world,
    onEnvironmentDeleted: pinned.forgetFormers,
  });

  const current = (environment: string) => pinned.of(environment) ?? stored.read(environment);

  const signingOrMade = async (environment: string) =>
    pinned.signing(environment, (await current(environment)) ?? (await make(environment)));

  async function requireEnvironment(name: string): Promise<Read<Environment>> {
    const found = await environments.get(name);
    if (found === undefined) throw await unknownEnvironment(collections, name);
    return found;
  }

  async function make(environment: string): Promise<readonly SigningSecret[]> {
    const { result } = await transact(store, async () => {
      const [home, before] = await Promise.all([requireEnvironment(environment), signingSecrets.get(environment)]);
      // Another replica has created the secret first.
      if (before !== undefined) return { changes: [], result: before.value.secrets };
      const after: Stored = create(SigningSecretsSchema, { environment, secrets: [newSecret(world.now())] });
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
      if (pinned.of(environment) !== undefined) {
        throw new Fault(
          "read_only",
          `the signing secret of "${environment}" is pinned in the configuration; change it there`,
        );
      }
      const { result } = await transact(store, async () => {
        const [home, before] = await Promise.all([requireEnvironment(environment), signingSecrets.get(environment)]);
        const fresh = newSecret(world.now());
        const nowMs = world.now();
        const beside = retiredBy(before?.value.secrets ?? [], nowMs + overlapMs);
        const secrets = [fresh, ...beside.filter((one) => isSigning(one, nowMs))].slice(0, maxSigning);
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
      stored.forget(environment);
      return result;
    },
    async deletionOf(environment) {
      const before = await signingSecrets.get(environment);
      return before === undefined
        ? { changes: [], conditions: [{ key: signingSecretsKey(environment), expect: 0 }] }
        : { changes: signingSecrets.change({ before, after: undefined }), conditions: [] };
    },
    declare: (wanted) => pinned.declare(wanted, current),
    close: () => stored.close(),
  };
}

/** Ends each secret at this time, unless it ends sooner. */
const retiredBy = (secrets: readonly SigningSecret[], endsMs: number): readonly SigningSecret[] =>
  secrets.map((one) => {
    const { retiresAt } = one;
    const isSooner = retiresAt !== undefined && timestampMs(retiresAt) <= endsMs;
    return isSooner ? one : { ...one, retiresAt: timestampFromMs(endsMs) };
  });

const newSecret = (nowMs: number): SigningSecret =>
  create(SigningSecretSchema, {
    id: randomId(),
    secret: signingSecretOf(randomBytes(keyBytes)),
    createdAt: timestampFromMs(nowMs),
  });
