import { timingSafeEqual } from "node:crypto";
import { timestampMs } from "@bufbuild/protobuf/wkt";
import { Fault } from "../../base/fault.ts";
import { digestOf } from "../../base/ids.ts";
import type { World } from "../../base/world.ts";
import type { SignedInBrowser } from "../../gen/latchkey/stored/v1/stored_pb.ts";
import type { Store, Watch } from "../../store/contract.ts";
import { follow } from "../../store/follow.ts";
import { keyOf } from "../../store/keys.ts";
import { type LastUsedTimes, touchedBy, type UsedThing } from "../stored/last-used.ts";
import type { SignInCollections } from "./sign-in-collections.ts";

/** What a call from the dashboard carries. Neither part alone gives access. */
export interface SessionProof {
  readonly cookie: string;
  readonly secret: string;
  /** The environment that the page shows, for a person with several. */
  readonly environment?: string | undefined;
  /** False for the repeated check of a stream, which does not prove that a person is there. */
  readonly isUse?: boolean;
}

export interface KnownBrowser {
  readonly stored: SignedInBrowser;
  readonly touched: UsedThing;
}

/** The sessions in memory. The store's watch keeps them current. */
export interface KnownBrowsers {
  /** Resolves once the sessions are in memory. */
  inSync(): Promise<void>;
  get(id: string): KnownBrowser | undefined;
  all(): readonly KnownBrowser[];
  /** Returns the session that both secrets belong to. Throws `signed_out` otherwise, and if it has ended. */
  find(proof: SessionProof): Promise<KnownBrowser>;
  isOver(one: KnownBrowser): Promise<boolean>;
  lastUseOf(one: KnownBrowser): Promise<number>;
  close(): void;
}

/** Sessions of this age have ended. */
export const browserSessionLifetimeMs = 24 * 3_600_000;
const idleMs = 8 * 3_600_000;

interface KnownBrowsersOptions {
  readonly store: Store;
  readonly collections: SignInCollections;
  readonly lastUsed: LastUsedTimes;
  readonly world: World;
}

export function createKnownBrowsers(options: KnownBrowsersOptions): KnownBrowsers {
  const { store, collections, lastUsed, world } = options;
  const { browserSessions: records } = collections;
  const known = new Map<string, KnownBrowser>();
  let following: Promise<Watch> | undefined;

  const note = (id: string, stored: SignedInBrowser | undefined) => {
    if (stored === undefined) known.delete(id);
    else known.set(id, { stored, touched: touchedBy(touchKeyOf(id)) });
  };

  /** Keeps the sessions in memory from the first use on: few replicas ever see a browser. */
  async function inSync(): Promise<void> {
    following ??= follow({
      store,
      world,
      spaces: ["browser-session"],
      async read() {
        const all = await records.page({ under: [], limit: Number.MAX_SAFE_INTEGER });
        return () => {
          known.clear();
          for (const { value } of all) note(value.id, value);
        };
      },
      onCommit({ changes, revision }) {
        for (const change of changes) {
          const session = records.read(change, revision);
          if (session !== undefined) note(session.parts[0] ?? "", session.value);
        }
      },
    });
    following.catch(() => {
      following = undefined;
    });
    await following;
  }

  async function lastUseOf({ stored }: KnownBrowser): Promise<number> {
    const [at] = await lastUsed.lastOf([touchKeyOf(stored.id)]);
    return Math.max(at ?? 0, bornMs(stored));
  }

  async function isOver(one: KnownBrowser): Promise<boolean> {
    const now = world.now();
    if (bornMs(one.stored) + browserSessionLifetimeMs <= now) return true;
    // A use a moment ago is known without a look at the store.
    if (now - one.touched.at < idleMs) return false;
    return (await lastUseOf(one)) + idleMs <= now;
  }

  async function find({ cookie, secret, isUse = true }: SessionProof): Promise<KnownBrowser> {
    const [, id = "", token = ""] = cookieForm.exec(cookie) ?? [];
    await inSync();
    // The session may have been created through another replica a moment ago.
    if (!known.has(id)) await store.caughtUp();
    const one = known.get(id);
    // Both are compared in any case, so that the time tells nothing.
    const isTheirs = isHashOf(token, one?.stored.tokenHash);
    const isItsPage = isHashOf(secret, one?.stored.secretHash);
    if (one === undefined || !isTheirs || !isItsPage || (await isOver(one))) throw signedOut();
    if (isUse) lastUsed.touch(one.touched);
    return one;
  }

  return {
    inSync,
    get: (id) => known.get(id),
    all: () => [...known.values()],
    find,
    isOver,
    lastUseOf,
    close() {
      void following?.then((watch) => watch.close());
    },
  };
}

export const bornMs = ({ createdAt }: SignedInBrowser): number =>
  createdAt === undefined ? 0 : timestampMs(createdAt);

export const touchKeyOf = (id: string): string => keyOf("touch", "browser-session", id);

const cookieForm = /^([A-Za-z0-9_-]{22})\.([A-Za-z0-9_-]{43})$/;

const none = digestOf("");

function isHashOf(secret: string, expected: string = none): boolean {
  const isEqual = timingSafeEqual(Buffer.from(digestOf(secret)), Buffer.from(expected));
  return isEqual && secret !== "";
}

export const signedOut = (reason = "the browser session has ended, or is not complete"): Fault =>
  new Fault("signed_out", `${reason}; sign in again`);
