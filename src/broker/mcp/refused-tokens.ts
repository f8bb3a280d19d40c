import { createLateCache } from "../../base/caches/late-cache.ts";
import { Fault } from "../../base/fault.ts";
import type { World } from "../../base/world.ts";
import type { IntegrationRef } from "../setup/integration-records.ts";
import type { McpIntegrations } from "./mcp-integrations.ts";

/**
 * Notes that an MCP server has refused a token with 401: it may have another issuer now. Starts a discovery, which
 * registers a client there. Never rejects; a repeated note costs nothing.
 */
export type NoteRefusedToken = (ref: IntegrationRef) => void;

interface RefusedTokensOptions {
  readonly mcp: Pick<McpIntegrations, "discover">;
  readonly world: Pick<World, "log">;
}

/** A server that refuses each token is read once in this time, by each replica. */
const onceInMs = 60_000;
const maxKnown = 10_000;
/** A server that is slow must not collect discoveries of others. */
const maxRunning = 4;
const actor = "mcp-discovery";

export function createRefusedTokens({ mcp, world }: RefusedTokensOptions): NoteRefusedToken {
  const known = createLateCache<true>({ max: maxKnown, ttl: onceInMs });
  let running = 0;

  async function discover(ref: IntegrationRef): Promise<void> {
    const { environment, key: integration } = ref;
    try {
      const { issuerChanged } = await mcp.discover(ref, actor);
      if (!issuerChanged) return;
      world.log.warn("an MCP server that refused a token named another issuer; its end users must authorize again", {
        environment,
        integration,
      });
    } catch (err) {
      // The daily discovery, and the next 401, try again.
      if (!(err instanceof Fault)) throw err;
      world.log.warn("an MCP server that refused a token could not be discovered", { environment, integration, err });
    }
  }

  return (ref) => {
    const { environment, key } = ref;
    const name = `${environment}\0${key}`;
    if (running >= maxRunning || known.has(name)) return;
    known.set(name, true);
    running += 1;
    discover(ref)
      .catch((err: unknown) => world.log.error("a discovery after a refused token failed", { environment, err }))
      .finally(() => {
        running -= 1;
      });
  };
}
