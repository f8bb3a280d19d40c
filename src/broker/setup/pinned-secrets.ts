import { create } from "@bufbuild/protobuf";
import { timestampFromMs, timestampMs } from "@bufbuild/protobuf/wkt";
import { digestOf } from "../../base/ids.ts";
import type { DeclaredSigningSecrets } from "../../core/declared.ts";
import { type SigningSecret, SigningSecretSchema } from "../../gen/latchkey/v1/environment_pb.ts";

/** Default time for which the previous secret signs beside the new one. */
export const defaultOverlapMs = 24 * 3_600_000;
/**
 * Limits the secrets that sign: each adds 48 bytes to every forward. With more rotations in an overlap, the oldest ends
 * early.
 */
export const maxSigning = 5;

/**
 * Signing secrets that the configuration file pins, and those that signed until it pinned another: the application
 * learns of the new secret after Latchkey does. Kept only in memory. To keep both across a restart within that day, pin
 * both.
 */
export interface PinnedSecrets {
  /** Returns undefined if the file pins none for the environment. */
  of(environment: string): readonly SigningSecret[] | undefined;
  /** Returns those of `secrets` that sign now, and the former ones that still sign beside them. */
  signing(environment: string, secrets: readonly SigningSecret[]): readonly SigningSecret[];
  /** Replaces the pinned secrets. `current` returns the secrets of an environment before the change. */
  declare(
    wanted: readonly DeclaredSigningSecrets[],
    current: (environment: string) => readonly SigningSecret[] | Promise<readonly SigningSecret[] | undefined>,
  ): Promise<void>;
  /** Ends the former secrets of a deleted environment: a later one with the same name must not use them. */
  forgetFormers(environment: string): void;
}

export function createPinnedSecrets(now: () => number): PinnedSecrets {
  const pinned = new Map<string, readonly SigningSecret[]>();
  const formers = new Map<string, readonly SigningSecret[]>();
  let hasDeclared = false;
  const signsNow = (one: SigningSecret) => isSigning(one, now());

  function signing(environment: string, secrets: readonly SigningSecret[]): readonly SigningSecret[] {
    const beside = without(formers.get(environment) ?? [], secrets);
    return [...secrets, ...beside].filter(signsNow);
  }

  return {
    of: (environment) => pinned.get(environment),
    signing,
    async declare(wanted, current) {
      const next = new Map(wanted.map(({ environment, secrets }) => [environment, secrets.map(pinnedSecret)]));
      // A secret that a list drops behind its newest ends at once. The former secrets keep signing only if the newest
      // changes.
      const replaced = [...new Set([...pinned.keys(), ...next.keys()])].filter(
        (name) => next.get(name)?.[0]?.secret !== pinned.get(name)?.[0]?.secret,
      );
      // At startup no secret has signed yet.
      const signed = hasDeclared ? await Promise.all(replaced.map(current)) : [];
      const retiresAt = timestampFromMs(now() + defaultOverlapMs);
      for (const [i, name] of replaced.entries()) {
        const former = signing(name, signed[i] ?? []).map((one) => ({ ...one, retiresAt: one.retiresAt ?? retiresAt }));
        formers.set(name, without(former, next.get(name) ?? []).slice(0, maxSigning));
      }
      pinned.clear();
      for (const [name, secrets] of next) pinned.set(name, secrets);
      hasDeclared = true;
    },
    forgetFormers(environment) {
      formers.delete(environment);
    },
  };
}

export const isSigning = ({ retiresAt }: SigningSecret, nowMs: number): boolean =>
  retiresAt === undefined || timestampMs(retiresAt) > nowMs;

const without = (all: readonly SigningSecret[], others: readonly SigningSecret[]): readonly SigningSecret[] =>
  all.filter((one) => others.every(({ secret }) => secret !== one.secret));

/** Identifies a pinned secret by its hash: the same id at every replica, and the secret cannot be guessed from it. */
const pinnedSecret = (secret: string): SigningSecret =>
  create(SigningSecretSchema, { id: `pinned-${digestOf(secret).slice(0, 12)}`, secret });
