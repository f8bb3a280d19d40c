import { randomBytes } from "node:crypto";
import { create } from "@bufbuild/protobuf";
import { timestampFromMs, timestampMs } from "@bufbuild/protobuf/wkt";
import { Fault } from "../../base/fault.ts";
import { digestOf } from "../../base/ids.ts";
import type { World } from "../../base/world.ts";
import { type SignInLink, SignInLinkSchema } from "../../gen/latchkey/stored/v1/stored_pb.ts";
import { StaleWrite, type Store } from "../../store/contract.ts";
import type { Audit } from "../audit/audit.ts";
import type { SessionHolder } from "./holders.ts";
import type { SignInCollections } from "./sign-in-collections.ts";

/** Links that sign a browser in, once. */
export interface SignInLinks {
  /** With `browser`, only the browser with this secret can use the link. */
  create(holder: SessionHolder, browser?: string): Promise<CreatedLink>;
  /** Returns whose link this is, and ends it. Throws `signed_out` if it was used or has expired. */
  use(token: string, browser: string | undefined): Promise<SessionHolder>;
}

export interface CreatedLink {
  readonly token: string;
  readonly expiresAtMs: number;
}

export const signInLinkLifetimeMs = 60_000;

interface SignInLinksOptions {
  readonly store: Store;
  readonly collections: SignInCollections;
  readonly audit: Audit;
  readonly world: World;
}

export function createSignInLinks({ store, collections, audit, world }: SignInLinksOptions): SignInLinks {
  const { signInLinks } = collections;
  return {
    async create({ keyId, keyDigest, person }, browser) {
      const token = randomBytes(32).toString("base64url");
      const now = world.now();
      const link = create(SignInLinkSchema, {
        tokenHash: digestOf(token),
        keyId,
        keyDigest,
        ...(person !== undefined && { person }),
        browserHash: browser === undefined ? "" : digestOf(browser),
        createdAt: timestampFromMs(now),
      });
      const entry =
        person === undefined ? audit.changes({ actor: keyId, action: "session.link", targets: [keyId] }) : [];
      await store.commit([...signInLinks.added(link), ...entry]);
      return { token, expiresAtMs: now + signInLinkLifetimeMs };
    },
    async use(token, browser) {
      await store.caughtUp();
      const before = tokenForm.test(token) ? await signInLinks.get(digestOf(token)) : undefined;
      if (before === undefined) throw ended();
      try {
        // The request that deletes it may use it: of two at once, one fails.
        await store.commit(signInLinks.change({ before, after: undefined }));
      } catch (error) {
        if (error instanceof StaleWrite) throw ended();
        throw error;
      }
      const { value } = before;
      if (isOver(value, world.now())) throw ended();
      if (value.browserHash !== "" && (browser === undefined || digestOf(browser) !== value.browserHash)) throw ended();
      return value;
    },
  };
}

const tokenForm = /^[A-Za-z0-9_-]{43}$/;

const isOver = ({ createdAt }: SignInLink, now: number): boolean =>
  createdAt === undefined || timestampMs(createdAt) + signInLinkLifetimeMs <= now;

const ended = (): Fault =>
  new Fault("signed_out", "the sign-in link was used, or is older than a minute; create another with `latchkey open`");
