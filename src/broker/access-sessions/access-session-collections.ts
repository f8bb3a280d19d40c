import { type AccessSessionBudget, AccessSessionBudgetSchema } from "../../gen/latchkey/stored/v1/stored_pb.ts";
import {
  type AccessSession,
  AccessSessionSchema,
  AccessSessionState,
} from "../../gen/latchkey/v1/access_session_pb.ts";
import type { Store } from "../../store/contract.ts";
import { createRecords } from "../../store/records.ts";
import { complete, strip } from "../stored/revisions.ts";
import { bornAt } from "../stored/sortable-time.ts";

/** Collections of access sessions. Those that have ended are apart, so that memory holds only the others. */
export function createAccessSessionCollections(store: Store) {
  const common = {
    store,
    schema: AccessSessionSchema,
    key: ({ id }: AccessSession) => [id],
    keyParts: 1,
    complete,
    strip: (session: AccessSession) => ({ ...strip(session), state: AccessSessionState.UNSPECIFIED }),
  } as const;
  return {
    accessSessions: createRecords({
      ...common,
      name: accessSessionSpace,
      indexes: {
        environment: ({ environment, createdAt }: AccessSession) => [[environment, bornAt(createdAt)]],
        expiry: ({ expiresAt }: AccessSession) => [[bornAt(expiresAt)]],
      },
    }),
    endedAccessSessions: createRecords({
      ...common,
      name: "ended-access-session",
      indexes: {
        environment: ({ environment, createdAt }: AccessSession) => [[environment, bornAt(createdAt)]],
        age: ({ endedAt }: AccessSession) => [[bornAt(endedAt)]],
      },
    }),
    accessSessionBudgets: createRecords({
      store,
      name: "access-session-budget",
      schema: AccessSessionBudgetSchema,
      key: ({ sessionId }: AccessSessionBudget) => [sessionId],
    }),
  } as const;
}

export const accessSessionSpace = "access-session";

export type AccessSessionCollections = ReturnType<typeof createAccessSessionCollections>;
