import { create } from "@bufbuild/protobuf";
import { durationFromMs, timestampFromMs } from "@bufbuild/protobuf/wkt";
import { AccessLimitsSchema, LimitedConnectionSchema, Scope } from "../../../gen/latchkey/v1/access_pb.ts";
import { AccessSessionService } from "../../../gen/latchkey/v1/access_session_pb.ts";
import { EnvironmentService } from "../../../gen/latchkey/v1/environment_pb.ts";
import type { CommandSession } from "../../session.ts";
import { UsageMistake } from "../../terminal/usage-mistake.ts";

/** What the program shows to the forward proxy. */
export interface RunAccess {
  readonly key: string;
  /** Ends the access; the program has ended. */
  end(): Promise<void>;
}

/** The longest that a session may live. A program that runs longer is refused then. */
export const mostMs = 86_400_000;
export const runLabel = "latchkey run";

/**
 * Returns the access of a program: a session for these connections, which ends with the program. Without connections it
 * is the key of the environment, and with a control key one that is made for the program.
 */
export async function accessFor(session: CommandSession, connections: readonly string[]): Promise<RunAccess> {
  const { client, environment: wanted, key } = session;
  if (key === undefined) throw new UsageMistake("a key is needed: set LATCHKEY_KEY, or pass --key-file");
  const limits = create(AccessLimitsSchema, { connections: connections.map(limitedConnection) });
  const caller = await client(EnvironmentService).getCaller({});
  const isControlKey = caller.environment === "" && caller.scopes.includes(Scope.ADMIN);
  const environment = isControlKey && wanted === "" ? "dev" : wanted;
  if (connections.length > 0) {
    const service = client(AccessSessionService);
    const request = { environment, limits, allowSeveral: true, lifetime: durationFromMs(mostMs), label: runLabel };
    const { session: made, token } = await service.createAccessSession(request);
    return { key: token, end: async () => void (await service.endAccessSession({ environment, id: made?.id ?? "" })) };
  }
  if (!isControlKey) return { key, end: async () => {} };
  const service = client(EnvironmentService);
  const expiresAt = timestampFromMs(Date.now() + mostMs);
  const { key: made, secret } = await service.createKey({ environment, scopes: [Scope.PROXY], expiresAt });
  return { key: secret, end: async () => void (await service.revokeKey({ id: made?.id ?? "" })) };
}

/** `integration/connection`, or an integration alone for all of its connections. */
export function limitedConnection(text: string) {
  const at = text.indexOf("/");
  const [integration, id] = at === -1 ? [text, ""] : [text.slice(0, at), text.slice(at + 1)];
  if (integration === "" || (at !== -1 && id === "")) {
    throw new UsageMistake(`--connection: ${JSON.stringify(text)} must be integration/connection, such as github/ada`);
  }
  return create(LimitedConnectionSchema, { integration, id });
}
