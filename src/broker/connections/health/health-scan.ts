import { create } from "@bufbuild/protobuf";
import type { World } from "../../../base/world.ts";
import { type ConnectionRef, ConnectionRefSchema } from "../../../gen/latchkey/v1/connection_pb.ts";
import type { Store } from "../../../store/contract.ts";
import { after, partsOf } from "../../../store/keys.ts";
import { transact } from "../../../store/records.ts";
import type { Integrations } from "../../setup/integrations.ts";
import type { Providers } from "../../setup/providers.ts";
import { type ConnectionCollections, toBeLookedAt } from "../connection-collections.ts";
import type { ConnectionHealth } from "./health.ts";

interface HealthScanOptions {
  readonly store: Store;
  readonly collections: ConnectionCollections;
  readonly health: ConnectionHealth;
  readonly integrations: Integrations;
  readonly providers: Providers;
  readonly world: World;
}

const perPage = 200;

/** Checks the health of the connections that are due; returns how many. */
export function createHealthScan(options: HealthScanOptions): (signal: AbortSignal) => Promise<number> {
  const { store, collections, health, integrations, providers, world } = options;
  const { refreshes } = collections;

  async function look(ref: ConnectionRef): Promise<void> {
    const { environment, integration: key, id } = ref;
    await transact(store, async () => {
      const known = await health.read(ref);
      const record = known?.record ?? (await refreshes.get(environment, key, id));
      if (record === undefined) return { changes: [], result: undefined };
      if (known === undefined) {
        return { changes: refreshes.change({ before: record, after: undefined }), result: undefined };
      }
      const { value: integration } = await integrations.get({ environment, key });
      const provider = providers.find(known.connection.value.provider);
      const { changes, conditions } = health.noteTime({ ...known, record }, { integration, provider });
      return { changes, conditions, result: undefined };
    });
  }

  return async (signal) => {
    let looked = 0;
    let { from, to } = toBeLookedAt(world.now());
    while (!signal.aborted) {
      const found = await store.list({ from, to, limit: perPage });
      for (const { key } of found) {
        if (signal.aborted) break;
        const [environment = "", integration = "", id = ""] = partsOf(key).slice(-3);
        try {
          await look(create(ConnectionRefSchema, { environment, integration, id }));
          looked += 1;
        } catch (err) {
          // A failed check does not prevent the others, and is repeated in the next scan.
          const connection = id;
          world.log.warn("connection health not checked; retrying in a minute", {
            environment,
            integration,
            connection,
            err,
          });
        }
      }
      const last = found.at(-1);
      if (last === undefined || found.length < perPage) break;
      from = after(last.key);
    }
    return looked;
  };
}
