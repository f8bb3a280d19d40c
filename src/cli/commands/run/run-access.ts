import { create } from "@bufbuild/protobuf";
import { durationFromMs, timestampFromMs, timestampMs } from "@bufbuild/protobuf/wkt";
import { AccessLimitsSchema, LimitedConnectionSchema, Scope } from "../../../gen/latchkey/v1/access_pb.ts";
import { AccessSessionService } from "../../../gen/latchkey/v1/access_session_pb.ts";
import { EnvironmentService } from "../../../gen/latchkey/v1/environment_pb.ts";
import type { CommandSession } from "../../session.ts";
import { UsageMistake } from "../../terminal/usage-mistake.ts";

/** What the program shows to the forward proxy. */
export interface RunAccess {
  readonly key: string;
  /** Until when it holds; undefined: as long as a key of its own. */
  readonly untilMs: number | undefined;
  /** Ends the access; the program has ended. */
  end(): Promise<void>;
}

/**
 * The life that is asked for; a configuration may allow less. The access is not renewed, so that it ends by itself if a
 * program is forgotten: later requests of a program that runs longer are refused.
 */
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
    const lifetime = durationFromMs(mostMs);
    const request = { environment, limits, allowSeveral: true, lifetime, shorten: true, label: runLabel };
    const { session: made, token } = await service.createAccessSession(request);
    return {
      key: token,
      untilMs: made?.expiresAt && timestampMs(made.expiresAt),
      end: async () => void (await service.endAccessSession({ environment, id: made?.id ?? "" })),
    };
  }
  if (!isControlKey) return { key, untilMs: undefined, end: async () => {} };
  const service = client(EnvironmentService);
  const untilMs = Date.now() + mostMs;
  const expiresAt = timestampFromMs(untilMs);
  const { key: made, secret } = await service.createKey({ environment, scopes: [Scope.PROXY], expiresAt });
  return { key: secret, untilMs, end: async () => void (await service.revokeKey({ id: made?.id ?? "" })) };
}

/** Returns a note about access that ends sooner than within a day; undefined: there is none. */
export function shortAccessNote({ untilMs }: RunAccess, nowMs: number): string | undefined {
  if (untilMs === undefined || untilMs - nowMs > mostMs - 60_000) return undefined;
  const at = new Date(untilMs).toISOString().replace(/\.\d+Z$/, "Z");
  return `the program's access ends at ${at}, as access_sessions.longest_life says; later requests are refused\n`;
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
