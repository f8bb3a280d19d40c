import { timestampMs } from "@bufbuild/protobuf/wkt";
import { Fault } from "../../base/fault.ts";
import { createScanLoop, type ScanLoop } from "../../base/scan-loop.ts";
import type { World } from "../../base/world.ts";
import { discoveredServer } from "../../core/mcp/discovered-server.ts";
import type { Provider } from "../../gen/latchkey/v1/provider_pb.ts";
import type { Store } from "../../store/contract.ts";
import { createHeldLease } from "../../store/held-lease.ts";
import { transact } from "../../store/records.ts";
import type { Providers } from "../setup/providers.ts";
import type { SetupCollections } from "../setup/setup-collections.ts";
import type { McpIntegrations } from "./mcp-integrations.ts";

interface RediscoveryOptions {
  readonly store: Store;
  readonly collections: SetupCollections;
  readonly providers: Providers;
  readonly mcp: Pick<McpIntegrations, "discover">;
  readonly world: World;
}

const everyMs = 60_000;
const afterMs = 86_400_000;
/** After a failure. A new server of the configuration file may start a moment after Latchkey. */
const retryMs = 600_000;
const retryUndiscoveredMs = 50_000;
/** Discoveries of one scan: each takes at most 50 s. */
const perScan = 10;
const actor = "mcp-discovery";

/** Discovers the servers of the configuration file, and all others once a day. One replica does this for all. */
export function createRediscovery(options: RediscoveryOptions): ScanLoop {
  const { store, collections, providers, mcp, world } = options;
  const lease = createHeldLease({ store, name: "mcp-discovery", lengthMs: 4 * everyMs });

  function isDue(provider: Provider): boolean {
    const rules = discoveredServer(provider);
    if (rules === undefined) return false;
    const { discoveredAt, triedAt, failure } = rules;
    if (triedAt === undefined) return true;
    const waitMs = failure === "" ? afterMs : discoveredAt === undefined ? retryUndiscoveredMs : retryMs;
    return world.now() - timestampMs(triedAt) >= waitMs;
  }

  async function rediscover({ name, mcp: rules }: Provider): Promise<void> {
    const { environment = "", integration: key = "" } = rules ?? {};
    const owner = await collections.integrations.get(environment, key);
    if (owner?.value.provider !== name) {
      await removeOrphan(name, { environment, key });
      return;
    }
    try {
      const { issuerChanged } = await mcp.discover({ environment, key }, actor);
      if (issuerChanged) {
        world.log.warn("an MCP server named another issuer; its end users must authorize again", {
          environment,
          integration: key,
        });
      }
    } catch (err) {
      if (!(err instanceof Fault)) throw err;
      world.log.warn("an MCP server could not be discovered; will retry", { environment, integration: key, err });
    }
  }

  /** Its integration was removed together with its environment. */
  async function removeOrphan(name: string, { environment, key }: { environment: string; key: string }): Promise<void> {
    await transact(store, async () => {
      const before = await collections.providers.get(name);
      const owner = await collections.integrations.get(environment, key);
      if (before === undefined || owner?.value.provider === name) return { changes: [], result: undefined };
      return {
        changes: collections.providers.change({ before, after: undefined }),
        conditions: [collections.integrations.none([name], "provider")],
        result: undefined,
      };
    });
  }

  async function scan(): Promise<number> {
    // The catalog has no MCP servers of an integration, and reading all of it takes 6 % of a start.
    const due = providers.added().filter(isDue).slice(0, perScan);
    if (due.length === 0 || (await lease.hold()) === undefined) return 0;
    await Promise.all(due.map(rediscover));
    return due.length;
  }

  const loop = createScanLoop({
    everyMs,
    scan,
    onFailure: (err) => world.log.warn("MCP servers not discovered; will retry", { err }),
  });
  return {
    ...loop,
    async stop() {
      await loop.stop();
      await lease.release();
    },
  };
}
