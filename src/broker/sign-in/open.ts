import type { World } from "../../base/world.ts";
import type { Store } from "../../store/contract.ts";
import type { Audit } from "../audit/audit.ts";
import type { Access } from "../setup/access.ts";
import type { LastUsedTimes } from "../stored/last-used.ts";
import { type BrowserSessions, createBrowserSessions } from "./browser-sessions.ts";
import { createSessionHolders, type SessionHolders } from "./holders.ts";
import { createPendingSignIns, type PendingSignIns } from "./pending-sign-ins.ts";
import type { SignInCollections } from "./sign-in-collections.ts";
import { createSignInLinks, type SignInLinks } from "./sign-in-links.ts";

/** Browsers that are signed in to the dashboard, and the ways in. */
export interface SignInRoom {
  readonly browserSessions: BrowserSessions;
  readonly signInLinks: SignInLinks;
  readonly pendingSignIns: PendingSignIns;
  readonly sessionHolders: SessionHolders;
}

interface SignInRoomOptions {
  readonly store: Store;
  readonly collections: SignInCollections;
  readonly access: Access;
  readonly lastUsed: LastUsedTimes;
  readonly audit: Audit;
  readonly world: World;
}

export function openSignIn({ access, ...options }: SignInRoomOptions): SignInRoom {
  const sessionHolders = createSessionHolders(access);
  return {
    browserSessions: createBrowserSessions({ ...options, holders: sessionHolders }),
    signInLinks: createSignInLinks(options),
    pendingSignIns: createPendingSignIns(options),
    sessionHolders,
  };
}
