import type { World } from "../../base/world.ts";
import type { Provider } from "../../gen/latchkey/v1/provider_pb.ts";
import type { Store } from "../../store/contract.ts";
import { transact } from "../../store/records.ts";
import type { ConnectionCollections } from "../connections/connection-collections.ts";
import type { ConnectionHealth } from "../connections/health/health.ts";
import type { IntegrationRef } from "../setup/integration-records.ts";
import type { Integrations } from "../setup/integrations.ts";

interface IssuerChangeOptions {
  readonly store: Store;
  readonly collections: ConnectionCollections;
  readonly health: ConnectionHealth;
  readonly integrations: Integrations;
  readonly world: World;
}

const perPage = 200;

/**
 * Returns the function that shows the connections of an integration what its new issuer means for them. Their tokens are
 * of no use already: this only tells users and applications.
 */
export function createIssuerChange(options: IssuerChangeOptions) {
  const { store, collections, health, integrations, world } = options;
  const { connections } = collections;

  async function note(id: string, { environment, key }: IntegrationRef, provider: Provider): Promise<void> {
    await transact(store, async () => {
      const known = await health.read({ $typeName: "latchkey.v1.ConnectionRef", environment, integration: key, id });
      if (known === undefined) return { changes: [], result: undefined };
      const { value: integration } = await integrations.get({ environment, key });
      const { changes, conditions } = health.noteTime(known, { integration, provider });
      return { changes, conditions, result: undefined };
    });
  }

  return async (ref: IntegrationRef, provider: Provider): Promise<void> => {
    const { environment, key } = ref;
    let after: string | undefined;
    for (;;) {
      const page = await connections.page({ under: [environment, key], limit: perPage, after });
      for (const { value, position } of page) {
        const id = value.ref?.id ?? "";
        await note(id, ref, provider).catch((err: unknown) => {
          world.log.warn("a connection's health was not updated", {
            environment,
            integration: key,
            connection: id,
            err,
          });
        });
        after = position;
      }
      if (page.length < perPage) return;
    }
  };
}
