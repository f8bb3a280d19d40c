import { randomBytes } from "node:crypto";
import { create } from "@bufbuild/protobuf";
import { timestampFromMs, timestampMs } from "@bufbuild/protobuf/wkt";
import { Fault } from "../../base/fault.ts";
import { digestOf } from "../../base/ids.ts";
import type { World } from "../../base/world.ts";
import { type PendingSignIn, PendingSignInSchema } from "../../gen/latchkey/stored/v1/stored_pb.ts";
import { StaleWrite, type Store } from "../../store/contract.ts";
import type { SignInCollections } from "./sign-in-collections.ts";

/** People who are at the identity provider. Any replica can finish what another one began. */
export interface PendingSignIns {
  /** Returns the state to send along. */
  begin(pending: NewPendingSignIn, browser: string): Promise<string>;
  /** Returns what was begun with this state in this browser, and ends it. Throws `signed_out` otherwise. */
  take(state: string, browser: string | undefined): Promise<PendingSignIn>;
}

export type NewPendingSignIn = Pick<PendingSignIn, "codeVerifier" | "nonce" | "redirectUri" | "returnTo">;

const lifetimeMs = 10 * 60_000;

interface PendingSignInsOptions {
  readonly store: Store;
  readonly collections: SignInCollections;
  readonly world: World;
}

export function createPendingSignIns({ store, collections, world }: PendingSignInsOptions): PendingSignIns {
  const { pendingSignIns } = collections;
  return {
    async begin(pending, browser) {
      const state = randomBytes(32).toString("base64url");
      const record = create(PendingSignInSchema, {
        ...pending,
        stateHash: digestOf(state),
        browserHash: digestOf(browser),
        createdAt: timestampFromMs(world.now()),
      });
      await store.commit(pendingSignIns.added(record));
      return state;
    },
    async take(state, browser) {
      await store.caughtUp();
      const before = await pendingSignIns.get(digestOf(state));
      // In a browser that did not begin it, it stays: the right one may still come.
      if (before === undefined || browser === undefined || before.value.browserHash !== digestOf(browser)) {
        throw notBegun();
      }
      try {
        await store.commit(pendingSignIns.change({ before, after: undefined }));
      } catch (error) {
        if (error instanceof StaleWrite) throw notBegun();
        throw error;
      }
      const { createdAt } = before.value;
      if (createdAt === undefined || timestampMs(createdAt) + lifetimeMs <= world.now()) throw notBegun();
      return before.value;
    },
  };
}

const notBegun = (): Fault =>
  new Fault("signed_out", "the sign-in was not begun in this browser, or it took too long; begin again");
