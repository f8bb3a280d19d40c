import type { World } from "../../base/world.ts";
import type { Connection } from "../../gen/latchkey/v1/connection_pb.ts";
import type { Store } from "../../store/contract.ts";
import type { Records } from "../../store/records.ts";
import type { Audit } from "../audit/audit.ts";
import type { PoliciesInForce } from "../policies/policies-in-force.ts";
import type { Access } from "../setup/access.ts";
import type { SetupRoom } from "../setup/open.ts";
import type { Providers } from "../setup/providers.ts";
import type { SetupCollections } from "../setup/setup-collections.ts";
import type { AccessSessionCollections } from "./access-session-collections.ts";
import { type AccessSessions, createAccessSessions } from "./access-sessions.ts";
import { type AccessBudgets, createAccessBudgets } from "./budgets.ts";
import { joinAccess } from "./joined-access.ts";
import type { AccessSessionTimes } from "./new-session.ts";
import { openSessionCallers, type SessionCallers } from "./session-callers.ts";
import { createExplainAccessSession, type ExplainAccessSession } from "./session-permissions.ts";

/** Access sessions: short-lived tokens for named connections. */
export interface AccessSessionRoom {
  readonly accessSessions: AccessSessions;
  readonly explainAccessSession: ExplainAccessSession;
  readonly sessionCallers: SessionCallers;
  readonly accessBudgets: AccessBudgets;
  /** Authenticates callers by keys and by tokens of sessions. */
  readonly access: Access;
  close(): Promise<void>;
}

interface AccessSessionRoomOptions {
  readonly store: Store;
  readonly collections: AccessSessionCollections & SetupCollections & { readonly connections: Records<Connection> };
  readonly setup: Pick<SetupRoom, "access">;
  readonly times: AccessSessionTimes | undefined;
  readonly policies: Pick<PoliciesInForce, "all">;
  readonly providers: Pick<Providers, "lookUp">;
  readonly audit: Audit;
  readonly world: World;
}

const usualTimes: AccessSessionTimes = { usualMs: 3_600_000, longestMs: 86_400_000 };

export async function openAccessSessions(options: AccessSessionRoomOptions): Promise<AccessSessionRoom> {
  const { store, collections, setup, times = usualTimes, policies, providers, audit, world } = options;
  const { access: keys } = setup;
  const accessBudgets = createAccessBudgets({ store, collections, world });
  const sessionCallers = await openSessionCallers({ store, keys, budgets: accessBudgets, world });
  const accessSessions = createAccessSessions({ store, collections, memory: sessionCallers, times, audit, world });
  return {
    accessSessions,
    explainAccessSession: createExplainAccessSession({
      accessSessions,
      sessionCallers,
      policies,
      providers,
      collections,
    }),
    sessionCallers,
    accessBudgets,
    access: joinAccess(keys, sessionCallers),
    async close() {
      sessionCallers.close();
      await accessBudgets.close();
    },
  };
}
