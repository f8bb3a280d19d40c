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
import { type Collections, signingSecretsKey } from "../collections.ts";
import { unknownEnvironment } from "./unknown-environment.ts";

/** What an environment signs with. */
export interface SigningSecrets {
  /** Those that sign now, the newest first; there is always one. Known in memory. */
  of(environment: string): Promise<readonly string[]>;
  /** As `of`, with what is known of them; their values only where `reveal` asks for them. */
  list(environment: string, asked: { readonly reveal: boolean }): Promise<readonly SigningSecret[]>;
  /** A new one, with its value. Those before it sign beside it for `overlapMs` at most; none: they end at once. */
  rotate(asked: { readonly environment: string; readonly overlapMs: number }, actor: string): Promise<SigningSecret>;
  /** What deletes those of an environment, to be committed with what else goes, and what that rests on. */
  deletionOf(environment: string): Promise<{ readonly changes: Change[]; readonly conditions: Condition[] }>;
  /** Those that configuration pins, in place of the ones it pinned before. */
  declare(pinned: readonly DeclaredSigningSecrets[]): Promise<void>;
  close(): void;
}

/** How long the former secret signs beside the new one, unless it is said. */
export const defaultOverlapMs = 24 * 3_600_000;
/** Each adds 48 bytes to every forward. Of more rotations than that within an overlap, the oldest ends early. */
const maxSigning = 5;
/** As Standard Webhooks' own examples; it wants 24 to 64. */
const keyBytes = 32;

interface SigningSecretsOptions {
  readonly store: Store;
  readonly collections: Collections;
  readonly audit: Audit;
  readonly world: World;
}

/** The secrets of each environment are in memory once it has signed, until the store's watch says that they changed. */
export async function openSigningSecrets(options: SigningSecretsOptions): Promise<SigningSecrets> {
  const { store, collections, audit, world } = options;
  const { signingSecrets, environments } = collections;
  const stored = new Map<string, readonly SigningSecret[]>();
  /** Counted, so that what was read before one of them is not kept. */
  let changesSeen = 0;
  const pinned = new Map<string, readonly SigningSecret[]>();
  /**
   * What signed until the file pinned something else: the application learns of the new one after latchkey does. In
   * memory alone, as all that the file pins: whoever restarts within that day, and wants both, pins both.
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
        // Whoever has the name next has nothing to do with it.
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

  /** Those before the newest, too, whose time may be over. Undefined: none has been made yet. */
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
      // Another replica was first.
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
      // Before the watch tells of it.
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
      // What a list drops behind its newest ends at once: only where that is another one do the former go on.
      const replaced = [...new Set([...pinned.keys(), ...next.keys()])].filter(
        (name) => next.get(name)?.[0]?.secret !== pinned.get(name)?.[0]?.secret,
      );
      // At a start nothing has signed before.
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

/** By a hash of it: the same at every replica, and nothing that a secret could be guessed from. */
const pinnedSecret = (secret: string): SigningSecret =>
  create(SigningSecretSchema, { id: `pinned-${digestOf(secret).slice(0, 12)}`, secret });
