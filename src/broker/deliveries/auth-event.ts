import { authModeOf } from "../../core/dialect/auth-mode.ts";
import { type Connection, Connection_State } from "../../gen/latchkey/v1/connection_pb.ts";
import type { Provider } from "../../gen/latchkey/v1/provider_pb.ts";

/** What happened to a connection's authorization. */
export interface AuthEvent {
  readonly operation: "creation" | "override" | "refresh" | "deletion";
  readonly connection: Connection;
  readonly provider: Provider;
  /** It was authorised again, and is of another account at the provider than before. */
  readonly isOtherAccount?: boolean;
  /** Undefined: it went well. */
  readonly error?: { readonly type: string; readonly description: string };
}

/**
 * As the application hears of it: the peer's fields under its names, so that what reads its events reads ours; and one
 * that the peer has not, `accountChanged`.
 */
export function authEventBody({
  operation,
  connection,
  provider,
  isOtherAccount = false,
  error,
}: AuthEvent): Uint8Array {
  const { ref, tags, endUser } = connection;
  return Buffer.from(
    JSON.stringify({
      from: "latchkey",
      type: "auth",
      connectionId: ref?.id,
      authMode: authModeOf(provider),
      providerConfigKey: ref?.integration,
      provider: connection.provider,
      environment: ref?.environment,
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
    }),
  );
}

/** The application is told when its user has to do something, and when that is over; not of each failure in between. */
export function refreshEvent(
  before: Connection,
  after: Connection,
): Pick<AuthEvent, "operation" | "error"> | undefined {
  const [was, is] = [before.state, after.state].map((state) => state === Connection_State.REAUTHORIZATION_REQUIRED);
  if (was === is) return undefined;
  if (!is) return { operation: "refresh" };
  const description = "the credentials can no longer be renewed: the end user must authorise again";
  return { operation: "refresh", error: { type: after.stateReason || "reauthorization_required", description } };
}
