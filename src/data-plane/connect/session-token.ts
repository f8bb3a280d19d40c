import type { IncomingHttpHeaders } from "node:http";
import { Fault } from "../../base/fault.ts";
import type { Broker } from "../../broker/broker.ts";
import type { QueryReader } from "../server/query.ts";

/** Returns the session that a page's script sends: in the header, or where the frontend SDK puts the token. */
export async function sessionOf(
  { sessions, origins }: Pick<Broker, "sessions" | "origins">,
  { headers, query }: { readonly headers: IncomingHttpHeaders; readonly query?: QueryReader },
) {
  const [, bearer] = /^Bearer ([\x21-\x7e]+)$/i.exec(headers.authorization ?? "") ?? [];
  const token = query?.text("connect_session_token") ?? bearer;
  if (token === undefined) {
    throw new Fault("missing_auth_header", "send the token of a connect session; public keys are not supported");
  }
  const session = await sessions.withToken(token);
  requireOrigin(origins, headers.origin, session.value.environment);
  return session;
}

/**
 * The listener has checked that some environment allows the page's origin; this checks the session's own environment.
 */
function requireOrigin(origins: Broker["origins"], origin: string | undefined, environment: string): void {
  if (origin === undefined || !origins.isKnown(origin) || origins.isAllowed(origin, environment)) return;
  throw new Fault("origin_not_allowed", "requests from that web page are not allowed", {
    metadata: { environment },
  });
}
