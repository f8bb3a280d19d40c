import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type DescService, type JsonObject, toJson } from "@bufbuild/protobuf";
import { type Provider, ProviderSchema } from "../../../src/gen/latchkey/v1/provider_pb.ts";
import { loadCatalogue } from "../../../src/providers/catalogue.ts";
import { secretKey, startUnmanaged, type TestSidecar } from "../sidecar/harness.ts";
import { readFixture } from "./fixture.ts";
import { type PlayedProvider, startPlayedProvider } from "./played-provider.ts";
import { hostsOf } from "./provider-run.ts";

export const environment = "dev";

/** A sidecar with the built-in catalog, and one server that plays all of its providers. */
export interface ProvidersWorld {
  readonly sidecar: TestSidecar;
  readonly played: PlayedProvider;
  /** The sidecar's clock; undefined: now. */
  readonly clock: { ms: number | undefined };
  /** The connections that were made, by provider. */
  readonly ids: Map<string, string>;
  stop(): Promise<void>;
}

export async function startProvidersWorld(names: readonly string[]): Promise<ProvidersWorld> {
  const played = await startPlayedProvider();
  const hosts = names.flatMap((name) => hostsOf(jsonOf(providerOf(name)), readFixture(name) ?? {}));
  const clock: ProvidersWorld["clock"] = { ms: undefined };
  const sidecar = await startUnmanaged({
    folder: await mkdtemp(join(tmpdir(), "latchkey-providers-")),
    env: { LATCHKEY_ALLOW_PRIVATE: [...new Set(hosts)].map((host) => `http://${host}:443`).join(",") },
    now: () => clock.ms ?? Date.now(),
    resolve: played.resolve,
  });
  // One connection for each service: a new one for each call would reach the most that the listener accepts.
  const clients = new Map<DescService, unknown>();
  const client: TestSidecar["client"] = (service) => {
    const known = clients.get(service) ?? sidecar.client(service);
    clients.set(service, known);
    return known as ReturnType<typeof sidecar.client<typeof service>>;
  };
  return {
    sidecar: { ...sidecar, client },
    played,
    clock,
    ids: new Map(),
    async stop() {
      await sidecar.stop();
      played.close();
      await rm(sidecar.folder, { recursive: true, force: true });
    },
  };
}

export function providerOf(name: string): Provider {
  const provider = loadCatalogue().get(name);
  if (provider === undefined) throw new Error(`there is no ${name}`);
  return provider;
}

const jsonOf = (provider: Provider) => toJson(ProviderSchema, provider, { useProtoFieldName: true }) as JsonObject;

/** Headers of a proxied call of a provider's connection. */
export const callHeaders = ({ ids }: ProvidersWorld, name: string) => ({
  "provider-config-key": name,
  "connection-id": ids.get(name) ?? "",
  authorization: `Bearer ${secretKey}`,
});
