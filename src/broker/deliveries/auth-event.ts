import { authModeOf } from "../../core/dialect/credentials.ts";
import { type Connection, Connection_State } from "../../gen/latchkey/v1/connection_pb.ts";
import type { Provider } from "../../gen/latchkey/v1/provider_pb.ts";
import type { ApplicationEvent } from "./envelope.ts";

/** A change to a connection's authorization. */
export interface AuthEvent {
  readonly operation: "creation" | "override" | "refresh" | "deletion";
  readonly connection: Connection;
  readonly provider: Provider;
  /** True if the connection was reauthorized with a different account at the provider. */
  readonly isOtherAccount?: boolean;
  /** Undefined on success. */
  readonly error?: { readonly type: string; readonly description: string };
}

/**
 * Returns the event as the application receives it: the peer's fields under the peer's names, so that code for the
 * peer's events can read ours. One field that the peer does not have: `accountChanged`.
 */
export function toAuthEvent(event: AuthEvent): ApplicationEvent {
  const { operation, connection, provider, isOtherAccount = false, error } = event;
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
