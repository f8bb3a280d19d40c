import { createLateCache } from "../../base/caches/late-cache.ts";
import type { World } from "../../base/world.ts";
import type { Audit } from "../../broker/audit/audit.ts";
import { type Caller, starterOf } from "../../broker/setup/caller.ts";

/** Writes refused calls of tools to the audit trail. */
export interface RefusedTools {
  note(refused: RefusedTool): void;
}

interface RefusedTool {
  readonly tool: string;
  readonly caller: Caller;
  readonly environment: string;
  /** Empty: a tool of Latchkey's own endpoint that belongs to none. */
  readonly integration: string;
  /** Code of the refusal. */
  readonly code: string;
}

/** A caller that repeats a refused call makes one entry a minute, not one for each call. */
const onceInMs = 60_000;
const maxKnown = 1_000;
const maxNameLength = 255;

/** Without an audit trail, nothing is written. */
export function createRefusedTools(audit: Pick<Audit, "note"> | undefined, { log }: Pick<World, "log">): RefusedTools {
  const known = createLateCache<true>({ max: maxKnown, ttl: onceInMs });
  return {
    note({ tool, caller, environment, integration, code }) {
      if (audit === undefined) return;
      const name = tool.slice(0, maxNameLength);
      const key = JSON.stringify([starterOf(caller), environment, integration, name, code]);
      if (known.has(key)) return;
      known.set(key, true);
      const { accessSession } = caller;
      const further = [integration.slice(0, maxNameLength), accessSession?.id ?? ""].filter((one) => one !== "");
      audit
        .note({ actor: caller.keyId, action: "mcp.refuse", environment, targets: [name, ...further], fields: [code] })
        .catch((err: unknown) => log.warn("could not note a refused tool in the audit trail", { err }));
    },
  };
}
