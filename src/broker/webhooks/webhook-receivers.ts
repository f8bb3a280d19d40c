import { createLateCache } from "../../base/caches/late-cache.ts";
import { Fault } from "../../base/fault.ts";
import type { Environment } from "../../gen/latchkey/v1/environment_pb.ts";
import type { Integration, IntegrationSecrets } from "../../gen/latchkey/v1/integration_pb.ts";
import type { Provider } from "../../gen/latchkey/v1/provider_pb.ts";
import type { Store } from "../../store/contract.ts";
import type { Destinations } from "../deliveries/destinations.ts";
import type { Integrations } from "../setup/integrations.ts";
import type { Providers } from "../setup/providers.ts";

/** The owner of a webhook URL. */
export interface WebhookReceiver {
  readonly environment: Environment;
  readonly integration: Integration;
  readonly provider: Provider;
  readonly secrets: IntegrationSecrets | undefined;
}

/** Receivers by webhook URL. Cached, because each webhook looks one up, until one of their parts changes. */
export interface WebhookReceivers {
  /** Returns a cached receiver without a promise; undefined if it may have to be read. */
  peek(environmentId: string, integration: string): WebhookReceiver | undefined;
  /** Throws `not_found`, with the same message whichever part is missing. */
  find(environmentId: string, integration: string): Promise<WebhookReceiver>;
  /** Finds a receiver by the environment itself instead of its id. */
  findIn(environment: Environment, integration: string): Promise<WebhookReceiver>;
  close(): void;
}

interface ReceiversOptions {
  readonly store: Store;
  readonly destinations: Destinations;
  readonly integrations: Integrations;
  readonly providers: Providers;
}

const kept = 1_000;
const spaces = ["environment", "integration", "integration-secrets", "provider"];

export async function openWebhookReceivers(options: ReceiversOptions): Promise<WebhookReceivers> {
  const { store, destinations, integrations, providers } = options;
  const known = createLateCache<WebhookReceiver>({ max: kept });
  /** Counts changes, so that a receiver read before a change is not cached after it. */
  let changes = 0;
  const forget = () => {
    changes += 1;
    known.clear();
  };
  let watch = await listen();

  function listen() {
    return store.watch(store.status().revision, {
      spaces,
      onCommit: forget,
      onLost() {
        forget();
        listen().then(
          (again) => {
            watch = again;
          },
          // The store is closed: no more reads follow.
          () => {},
        );
      },
    });
  }

  async function findIn(environment: Environment, key: string): Promise<WebhookReceiver> {
    const at = `${environment.name}\0${key}`;
    const cached = known.get(at);
    if (cached !== undefined) return cached;
    const before = changes;
    const ref = { environment: environment.name, key };
    const [{ value: integration }, secrets] = await Promise.all([integrations.get(ref), integrations.secretsOf(ref)]);
    const found = { environment, integration, provider: await providers.findNow(integration.provider), secrets };
    if (changes === before) known.set(at, found);
    return found;
  }

  return {
    peek(environmentId, integration) {
      const environment = destinations.environmentById(environmentId);
      return environment === undefined ? undefined : known.get(`${environment.name}\0${integration}`);
    },
    async find(environmentId, integration) {
      const environment = destinations.environmentById(environmentId);
      try {
        if (environment !== undefined) return await findIn(environment, integration);
      } catch (error) {
        if (!(error instanceof Fault) || error.status !== 404) throw error;
      }
      throw new Fault("not_found", "unknown webhook address");
    },
    findIn,
    close: () => watch.close(),
  };
}
