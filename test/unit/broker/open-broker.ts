import { create, fromBinary, type MessageInitShape } from "@bufbuild/protobuf";
import { onTestFinished } from "vitest";
import type { SendSmallRequest } from "../../../src/base/small-requests.ts";
import { type Broker, openBroker } from "../../../src/broker/broker.ts";
import { type Collections, createCollections } from "../../../src/broker/collections.ts";
import { credentialsKey } from "../../../src/broker/connections/connection-collections.ts";
import type { ConnectionSetup } from "../../../src/broker/connections/health/health-judgement.ts";
import { createHealthScan } from "../../../src/broker/connections/health/health-scan.ts";
import type { ConnectionSnapshot } from "../../../src/broker/connections/health/snapshot.ts";
import type { LogRetention } from "../../../src/broker/log-retention.ts";
import { defaultRetention } from "../../../src/config/retention.ts";
import { defaultWebhooks } from "../../../src/config/webhooks.ts";
import { noScripts, type ScriptHost } from "../../../src/core/scripts/script.ts";
import { ConnectionImportSchema, ConnectionRefSchema } from "../../../src/gen/latchkey/v1/connection_pb.ts";
import { CredentialsSchema } from "../../../src/gen/latchkey/v1/credentials_pb.ts";
import { IntegrationSchema, type OAuthApp_Publishing } from "../../../src/gen/latchkey/v1/integration_pb.ts";
import { loadCatalogue } from "../../../src/providers/catalogue.ts";
import type { Backend } from "../../../src/store/contract.ts";
import { localSealKey } from "../../../src/store/sealed/seal-key.ts";
import { openSealedStore, type SealedStore } from "../../../src/store/sealed/sealed.ts";
import { openTestStore, type TestWorld } from "./world.ts";

/** A broker over a store that a test may look into, with an integration `calendar` of Google's calendars. */
export interface OpenBroker {
  readonly broker: Broker;
  readonly store: SealedStore;
  readonly backend: Backend;
  readonly collections: Collections;
  import(id: string, credentials: NonNullable<MessageInitShape<typeof CredentialsSchema>["kind"]>): Promise<void>;
  known(id: string): Promise<ConnectionSnapshot>;
  equipment(id: string): Promise<ConnectionSetup>;
  /** Scans the health of the connections that are due. */
  sweepHealth(): Promise<number>;
}

interface Options {
  readonly retention?: LogRetention;
  readonly publishing?: OAuthApp_Publishing;
  /** Sends to providers; by default no request can be sent. */
  readonly send?: SendSmallRequest;
  readonly scripts?: ScriptHost;
  readonly workTermMs?: number;
  readonly lookupBytes?: number;
  /** Opens another replica over the same store, or over the test's view of it. */
  readonly beside?: Pick<OpenBroker, "store" | "backend">;
}

export const refOf = (id: string) => create(ConnectionRefSchema, { environment: "dev", integration: "calendar", id });

const nothing: SendSmallRequest = () => Promise.reject(new Error("nothing is sent"));

async function openStore(world: TestWorld) {
  const backend = await openTestStore(world);
  const keys = [localSealKey({ id: "test", secret: Buffer.alloc(32, 7) })];
  return { backend, store: await openSealedStore({ backend, keys, world }) };
}

export async function openTestBroker(world: TestWorld, options: Options = {}): Promise<OpenBroker> {
  const { retention, publishing, send = nothing, scripts = noScripts, workTermMs, lookupBytes, beside } = options;
  const { store, backend } = beside ?? (await openStore(world));
  const broker = await openBroker({
    store,
    // A store of a single process grants no leases to others.
    backend: beside === undefined ? backend : { ...backend, isShared: true },
    catalogue: loadCatalogue(),
    scripts,
    workTermMs,
    lookupBytes,
    publicUrl: () => "http://127.0.0.1",
    retention: { ...defaultRetention, ...retention },
    send,
    sendToApplication: nothing,
    webhooks: defaultWebhooks,
    world,
  });
  onTestFinished(() => broker.close());
  const settings = { forwardUrl: "", secondaryForwardUrl: "", allowedOrigins: [] };
  if (beside === undefined) await broker.environments.create({ name: "dev", ...settings }, "test");
  const integration = create(IntegrationSchema, {
    environment: "dev",
    key: "calendar",
    provider: "google-calendar",
    oauth: { clientId: "id", publishing: publishing ?? 0, scopes: ["https://www.googleapis.com/auth/calendar"] },
    secrets: { clientSecret: "the-client-secret" },
  });
  if (beside === undefined) await broker.integrations.create(integration, "test");
  const collections = createCollections(store, { fieldsOf: () => [] });
  const sweep = createHealthScan({ ...broker, store, collections, world });
  return {
    ...{ broker, store, backend, collections },
    sweepHealth: () => sweep(new AbortController().signal),
    async import(id, kind) {
      const item = create(ConnectionImportSchema, {
        environment: "dev",
        integration: "calendar",
        id,
        credentials: { kind },
      });
      await broker.imports.importOne(item, "test");
    },
    async known(id) {
      const known = await broker.health.read(refOf(id));
      if (known === undefined) throw new Error(`there is no connection ${id}`);
      return known;
    },
    async equipment(id) {
      const entry = await store.get(credentialsKey("dev", "calendar", id));
      if (entry === undefined) throw new Error(`there are no credentials of ${id}`);
      const { value } = await broker.integrations.get({ environment: "dev", key: "calendar" });
      return {
        credentials: fromBinary(CredentialsSchema, entry.value),
        integration: value,
        provider: broker.providers.find("google-calendar"),
      };
    },
  };
}
