import {
  type PendingSignIn,
  PendingSignInSchema,
  type SignedInBrowser,
  SignedInBrowserSchema,
  type SignInLink,
  SignInLinkSchema,
} from "../../gen/latchkey/stored/v1/stored_pb.ts";
import type { Store } from "../../store/contract.ts";
import { createRecords } from "../../store/records.ts";
import { bornAt } from "../stored/sortable-time.ts";

/** Collections of people who are signed in to the dashboard, or about to be. */
export function createSignInCollections(store: Store) {
  return {
    browserSessions: createRecords({
      store,
      name: "browser-session",
      schema: SignedInBrowserSchema,
      secret: true,
      key: ({ id }: SignedInBrowser) => [id],
      indexes: { age: ({ createdAt }: SignedInBrowser) => [[bornAt(createdAt)]] },
    }),
    signInLinks: createRecords({
      store,
      name: "sign-in-link",
      schema: SignInLinkSchema,
      secret: true,
      key: ({ tokenHash }: SignInLink) => [tokenHash],
      indexes: { age: ({ createdAt }: SignInLink) => [[bornAt(createdAt)]] },
    }),
    pendingSignIns: createRecords({
      store,
      name: "pending-sign-in",
      schema: PendingSignInSchema,
      secret: true,
      key: ({ stateHash }: PendingSignIn) => [stateHash],
      indexes: { age: ({ createdAt }: PendingSignIn) => [[bornAt(createdAt)]] },
    }),
  } as const;
}

export type SignInCollections = ReturnType<typeof createSignInCollections>;
