import { create } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { AccessLimitsSchema, LimitedConnectionSchema, Scope } from "../../../gen/latchkey/v1/access_pb.ts";
import { EnvironmentService } from "../../../gen/latchkey/v1/environment_pb.ts";
import type { CommandSession } from "../../session.ts";
import { UsageMistake } from "../../terminal/usage-mistake.ts";

/** What the program shows to the forward proxy. */
export interface RunAccess {
  /** The user name beside the key: the connection, or a word that says nothing. */
  readonly user: string;
  readonly key: string;
  /** Ends the access; the program has ended. */
  end(): Promise<void>;
}

/** A program that runs longer keeps its key: this only ends what a killed command has left behind. */
const mostMs = 7 * 86_400_000;

/**
 * Returns the access of a program. With a control key, a key is made that may use these connections alone, and is
 * revoked afterwards. With a key of an environment, it is that key.
 */
export async function accessFor(session: CommandSession, connections: readonly string[]): Promise<RunAccess> {
  const { client, environment: wanted, key } = session;
  if (key === undefined) throw new UsageMistake("a key is needed: set LATCHKEY_KEY, or pass --key-file");
  const caller = await client(EnvironmentService).getCaller({});
  const isControlKey = caller.environment === "" && caller.scopes.includes(Scope.ADMIN);
  if (!isControlKey) {
    const [only, ...others] = connections;
    if (others.length > 0) throw new UsageMistake("several connections need a control key: pass --key-file");
    return { user: only ?? "latchkey", key, end: async () => {} };
  }
  const environment = wanted === "" ? "dev" : wanted;
  const limits = create(AccessLimitsSchema, { connections: connections.map(limitedConnection) });
  const { key: made, secret } = await client(EnvironmentService).createKey({
    environment,
    scopes: [Scope.PROXY],
    expiresAt: timestampFromMs(Date.now() + mostMs),
    ...(connections.length > 0 && { limits }),
  });
  return {
    user: "latchkey",
    key: secret,
    end: async () => void (await client(EnvironmentService).revokeKey({ id: made?.id ?? "" })),
  };
}

/** `integration/connection`, or an integration alone for all of its connections. */
function limitedConnection(text: string) {
  const at = text.indexOf("/");
  const [integration, id] = at === -1 ? [text, ""] : [text.slice(0, at), text.slice(at + 1)];
  if (integration === "" || (at !== -1 && id === "")) {
    throw new UsageMistake(`--connection: ${JSON.stringify(text)} must be integration/connection, such as github/ada`);
  }
  return create(LimitedConnectionSchema, { integration, id });
}
