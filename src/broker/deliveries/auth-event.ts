import { authModeOf } from "../../core/dialect/credentials.ts";
import { stateOfRevocation, tokenResults } from "../../core/revocation-words.ts";
import { type Connection, Connection_State, type Revocation } from "../../gen/latchkey/v1/connection_pb.ts";
import type { Provider } from "../../gen/latchkey/v1/provider_pb.ts";
import type { ApplicationEvent } from "./envelope.ts";

/** A change to a connection's authorization. */
export interface AuthEvent {
  readonly operation: "creation" | "override" | "refresh" | "deletion" | "revocation";
  readonly connection: Connection;
  readonly provider: Provider;
  /** True if the connection was reauthorized with a different account at the provider. */
  readonly isOtherAccount?: boolean;
  /** What becomes of the grant of a deleted connection; undefined if its credentials are no grant. */
  readonly revocation?: Revocation | undefined;
  /** Undefined on success. */
  readonly error?: { readonly type: string; readonly description: string };
}

/**
 * Returns the event as the application receives it: the peer's fields under the peer's names, so that code for the
 * peer's events can read ours. Fields that the peer does not have: `accountChanged` and
 * `revocation`.
 */
export function toAuthEvent(event: AuthEvent): ApplicationEvent {
  const { operation, connection, provider, isOtherAccount = false, revocation, error } = event;
  const { ref, tags, endUser } = connection;
  return {
    type: "auth",
    connection: ref,
    authMode: authModeOf(provider),
    provider: connection.provider,
    fields: {
      operation,
      success: error === undefined,
      ...(isOtherAccount && { accountChanged: true }),
      ...(revocation !== undefined && { revocation: revocationFields(revocation) }),
      ...(error !== undefined && { error }),
      tags,
      ...(endUser !== undefined && {
        endUser: {
          endUserId: endUser.id,
          endUserEmail: endUser.email,
          ...(endUser.organization !== undefined && { organizationId: endUser.organization.id }),
          tags: endUser.tags,
        },
      }),
    },
  };
}

const revocationFields = (revocation: Revocation) => ({
  id: revocation.id,
  state: stateOfRevocation(revocation),
  tokens: tokenResults(revocation),
});

/**
 * Returns the event for a refresh: one when the user must act, and one when that is over. Failures in between send no
 * event.
 */
export function refreshEvent(
  before: Connection,
  after: Connection,
): Pick<AuthEvent, "operation" | "error"> | undefined {
  const [was, is] = [before.state, after.state].map((state) => state === Connection_State.REAUTHORIZATION_REQUIRED);
  if (was === is) return undefined;
  if (!is) return { operation: "refresh" };
  const description = "the credentials can no longer be refreshed: the end user must authorize again";
  return { operation: "refresh", error: { type: after.stateReason || "reauthorization_required", description } };
}
