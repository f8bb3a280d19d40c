import { createRecentCache } from "../../../base/caches/recent-cache.ts";
import { mayDo, starterOf } from "../../../broker/setup/caller.ts";
import { type ClientLogLevel, readLogLevel } from "../../../core/mcp-endpoint/log-level.ts";
import { RpcFailure, rpcCodes } from "../../../core/mcp-endpoint/protocol.ts";
import { Scope } from "../../../gen/latchkey/v1/access_pb.ts";
import type { RpcRequest } from "../rpc-request.ts";

type LevelRequest = Pick<RpcRequest, "params" | "client" | "caller">;

/** Knows which log messages clients want. */
export interface ClientLogLevels {
  /** Returns the least important level that the client of a request wants; undefined: it gets no messages. */
  of(request: Pick<LevelRequest, "client" | "caller">): ClientLogLevel | undefined;
  /** Answers `logging/setLevel`. Throws `RpcFailure` for an unknown level, or a request without a session. */
  set(request: LevelRequest): void;
}

/** Far more sessions than send requests at once. One that is forgotten gets no messages until it sets its level again. */
const maxSessions = 10_000;

/**
 * Clients of 2026-07-28 say the level with each request. Older ones set it for their session, which this process alone
 * remembers: another replica sends no messages, which is never more than a client wants.
 */
export function createClientLogLevels(): ClientLogLevels {
  const ofSessions = createRecentCache<ClientLogLevel>(maxSessions);
  // Another caller that learns the ID of a session changes nothing for its client.
  const keyOf = ({ client, caller }: Pick<LevelRequest, "client" | "caller">) =>
    JSON.stringify([caller.environment, starterOf(caller.caller), client.session]);
  return {
    of(request) {
      // A run's log is read with this scope everywhere else.
      if (!mayDo(request.caller.caller, Scope.CONNECTIONS_READ)) return undefined;
      const { client } = request;
      return client.era === "modern" ? client.logLevel : ofSessions.get(keyOf(request));
    },
    set(request) {
      const level = readLogLevel(request.params["level"], "level");
      if (request.client.session === "") {
        const message = "send the header Mcp-Session-Id that `initialize` has answered with: the level is kept for it";
        throw new RpcFailure(rpcCodes.invalidRequest, message);
      }
      ofSessions.set(keyOf(request), level);
    },
  };
}
