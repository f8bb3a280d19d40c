import { type JsonObject, toJson } from "@bufbuild/protobuf";
import { type Timestamp, timestampDate } from "@bufbuild/protobuf/wkt";
import { scopeName } from "../../../core/scopes.ts";
import { AccessLimitsSchema } from "../../../gen/latchkey/v1/access_pb.ts";
import {
  AccessAudienceSchema,
  type AccessSession,
  AccessSessionState,
} from "../../../gen/latchkey/v1/access_session_pb.ts";

/** Returns an access session as the JSON routes show it. */
export function accessSessionJson(session: AccessSession): JsonObject {
  const { id, limits, scopes, audience, budget, budgetLeft, label, state } = session;
  return {
    id,
    state: stateOf(state),
    limits: limits === undefined ? {} : toJson(AccessLimitsSchema, limits, { useProtoFieldName: true }),
    scopes: scopes.map(scopeName),
    audience: audience === undefined ? null : toJson(AccessAudienceSchema, audience, { useProtoFieldName: true }),
    budget: budget === 0n ? null : Number(budget),
    budget_left: budgetLeft === undefined ? null : Number(budgetLeft),
    label,
    created_by: session.createdBy,
    created_at: iso(session.createdAt),
    expires_at: iso(session.expiresAt),
    ended_at: iso(session.endedAt),
    ended_by: session.endedBy === "" ? null : session.endedBy,
  };
}

function stateOf(state: AccessSessionState): string {
  if (state === AccessSessionState.EXPIRED) return "expired";
  return state === AccessSessionState.ENDED ? "ended" : "active";
}

const iso = (at: Timestamp | undefined) => (at === undefined ? null : timestampDate(at).toISOString());
