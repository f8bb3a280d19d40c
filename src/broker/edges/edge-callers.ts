import { create } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { edgeVersion } from "../../core/edges/edge-version.ts";
import type { AccessLimits } from "../../gen/latchkey/v1/access_pb.ts";
import { AccessAudienceSchema } from "../../gen/latchkey/v1/access_session_pb.ts";
import { type EdgeKey, EdgeKeySchema } from "../../gen/latchkey/v1/edge_pb.ts";
import { type Key, KeySchema } from "../../gen/latchkey/v1/environment_pb.ts";
import type { SessionCaller, SessionCallers } from "../access-sessions/session-callers.ts";
import type { Access } from "../setup/access.ts";
import type { EdgeDescription } from "./edge-stream.ts";

/** What an edge gets of a key or an access session. */
export interface EdgeCallerMessage extends Pick<EdgeKey, "key" | "session"> {
  readonly version: Uint8Array;
  /** ID of the key that is used. */
  readonly keyId: string;
  /** Tells it from other keys and sessions. */
  readonly id: string;
}

export interface EdgeCallerSources {
  readonly keys: Pick<Access, "keyWithDigest">;
  readonly sessions: Pick<SessionCallers, "callerWithDigest">;
}

/** Returns what an edge may know of the secret with this hash; undefined: nothing. */
export function edgeCallerWith(
  { keys, sessions }: EdgeCallerSources,
  edge: EdgeDescription,
  digest: string,
): EdgeCallerMessage | undefined {
  const key = keys.keyWithDigest(digest);
  if (key !== undefined) {
    if (key.environment !== edge.environment) return undefined;
    // An older edge would let its callers use everything.
    return appliesLimitsOf(key, edge) ? messageOf(key) : undefined;
  }
  const caller = edge.appliesLimits ? sessions.callerWithDigest(digest) : undefined;
  if (caller === undefined || caller.environment !== edge.environment || !isForEdge(caller, edge)) return undefined;
  return appliesToolsOf(caller.limits?.given, edge) ? sessionMessageOf(caller) : undefined;
}

const appliesLimitsOf = ({ limits }: Key, edge: EdgeDescription): boolean =>
  limits === undefined || (edge.appliesLimits && appliesToolsOf(limits, edge));

const appliesToolsOf = (limits: AccessLimits | undefined, { appliesTools }: EdgeDescription): boolean =>
  appliesTools || limits === undefined || limits.tools.length === 0;

/** The edge's own service account is what its callers have proven: they are in its pod. */
function isForEdge({ accessSession: { audience } }: SessionCaller, { proof, identity }: EdgeDescription): boolean {
  const accounts = audience?.given.serviceAccounts ?? [];
  return accounts.length === 0 || (proof === "service_account" && accounts.includes(identity));
}

const messages = new WeakMap<Key | SessionCaller, EdgeCallerMessage>();

/** Computed once for each change of the key. */
function messageOf(key: Key): EdgeCallerMessage {
  const known = messages.get(key);
  if (known !== undefined) return known;
  const { id, environment, scopes, expiresAt, limits } = key;
  const shown = create(KeySchema, {
    id,
    environment,
    scopes,
    ...(expiresAt && { expiresAt }),
    ...(limits && { limits }),
  });
  const made = { key: shown, version: edgeVersion(KeySchema, shown), keyId: id, id };
  messages.set(key, made);
  return made;
}

function sessionMessageOf(caller: SessionCaller): EdgeCallerMessage {
  const known = messages.get(caller);
  const { keyId, environment = "", scopes, limits, accessSession } = caller;
  const { id, audience, budget, expiresAtMs } = accessSession;
  // A rotated key may shorten the life of its sessions.
  if (known !== undefined && known.key?.expiresAt?.seconds === timestampFromMs(expiresAtMs).seconds) return known;
  const key = create(KeySchema, {
    id: keyId,
    environment,
    scopes: [...scopes],
    expiresAt: timestampFromMs(expiresAtMs),
    ...(limits && { limits: limits.given }),
  });
  const { listeners = [], addresses = [], certificateNames = [] } = audience?.given ?? {};
  const message = create(EdgeKeySchema, {
    key,
    session: {
      id,
      audience: create(AccessAudienceSchema, { listeners, addresses, certificateNames }),
      hasBudget: budget !== undefined,
    },
  });
  const made = { key, session: message.session, version: edgeVersion(EdgeKeySchema, message), keyId, id };
  messages.set(caller, made);
  return made;
}
