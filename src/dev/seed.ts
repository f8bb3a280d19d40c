import { create, equals } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { Fault, type FaultCode } from "../base/fault.ts";
import { defaultEnvironment } from "../core/declared.ts";
import { emailHash } from "../core/notifications/email-hash.ts";
import { ConnectionImportSchema } from "../gen/latchkey/v1/connection_pb.ts";
import { IntegrationSchema } from "../gen/latchkey/v1/integration_pb.ts";
import { type Provider, ProviderSchema } from "../gen/latchkey/v1/provider_pb.ts";
import { readProvider } from "../providers/read.ts";
import type { Sidecar } from "../sidecar.ts";
import { readyClient } from "./sandbox/auth/clients.ts";
import { describeProviders } from "./sandbox/providers.ts";
import type { Sandbox } from "./sandbox/sandbox.ts";

const environment = defaultEnvironment;
const actor = "dev";
const user = "ada@example.com";
const id = "ada";
/** What has it is ours to replace. Who takes it away keeps the connection. */
const mark = { name: "made-by", value: "latchkey-dev" } as const;

/** An integration for each neutral API of the sandbox. */
const integrations = [
  { key: "calendar", provider: "sandbox-calendar", displayName: "Sandbox calendar" },
  { key: "files", provider: "sandbox-files", displayName: "Sandbox files" },
  { key: "unified", provider: "sandbox-unified", displayName: "Sandbox files, mail, calendar and spreadsheets" },
] as const;

/** One of Ada's for each. */
export const connections: readonly string[] = integrations.map(({ key }) => `${key}/${id}`);

/** What is there to play with now. */
export interface SeededData {
  /** By integration, what the sandbox calls the grant behind the connection. */
  readonly grants: ReadonlyMap<string, string>;
  /** Connections that somebody else has put in the place of ours. */
  readonly left: readonly string[];
  /** Where the calendar's webhooks are to be sent, on the data door. */
  readonly webhookPath: string;
}

/**
 * The sandbox's providers, an integration and a connection for each of its neutral APIs. It forgets what it granted
 * when it ends, so that connections of ours get new tokens at each start. What is somebody else's stays as it is.
 */
export async function seed({ broker }: Sidecar, sandbox: Sandbox): Promise<SeededData> {
  const descriptions = describeProviders(sandbox.origin).map(readProvider);
  for (const provider of descriptions) await describe(broker.providers, provider);
  const grants = new Map<string, string>();
  const left: string[] = [];
  for (const wanted of integrations) {
    const isOurs = (await isSetUp(broker.integrations, wanted)) && (await isFree(broker.connections, wanted));
    if (isOurs) {
      const { grant, item } = granted(sandbox, wanted, descriptions);
      await broker.imports.importOne(item, actor);
      grants.set(wanted.key, grant);
    } else left.push(`${wanted.key}/${id}`);
  }
  const { value: calendar } = await broker.integrations.get({ environment, key: "calendar" });
  const { pathname: webhookPath } = new URL(await broker.webhookUrls.of(calendar));
  return { grants, left, webhookPath };
}

type SidecarBroker = Sidecar["broker"];
type SampleIntegration = (typeof integrations)[number];

/** It may have been at another address last time. What a configuration file declares under its name, stays. */
async function describe(providers: SidecarBroker["providers"], wanted: Provider): Promise<void> {
  const isNew = await unless("already_exists", providers.create(wanted, actor));
  if (isNew || isSame(providers.find(wanted.name), wanted)) return;
  await unless("read_only", providers.update({ provider: wanted, expectedRevision: 0n }, actor));
}

function isSame({ createdAt: _, updatedAt: __, ...known }: Provider, wanted: Provider): boolean {
  return equals(ProviderSchema, { ...known, custom: false, declared: false, revision: 0n }, wanted);
}

/** Whether there is one now that can use what the sandbox grants. */
async function isSetUp(
  all: SidecarBroker["integrations"],
  { key, provider, displayName }: SampleIntegration,
): Promise<boolean> {
  const wanted = create(IntegrationSchema, {
    environment,
    key,
    provider,
    displayName,
    oauth: { clientId: readyClient.id },
    secrets: { clientSecret: readyClient.secret ?? "" },
  });
  if (await unless("already_exists", all.create(wanted, actor))) return true;
  const { value } = await all.get({ environment, key });
  return value.provider === provider && value.oauth?.clientId === readyClient.id;
}

async function isFree(connections: SidecarBroker["connections"], { key }: SampleIntegration): Promise<boolean> {
  const [found] = await connections.getMany([
    { $typeName: "latchkey.v1.ConnectionRef", environment, integration: key, id },
  ]);
  return found === undefined || found.tags[mark.name] === mark.value;
}

/** As a user's consent would have brought it, refresh token and all. */
function granted(sandbox: Sandbox, { key, provider }: SampleIntegration, descriptions: readonly Provider[]) {
  const { auth } = descriptions.find(({ name }) => name === provider) ?? {};
  const scopes = auth?.case === "oauth2" ? auth.value.defaultScopes : [];
  const { grant, ...raw } = sandbox.grant({ user, scopes: [...scopes] });
  const item = create(ConnectionImportSchema, {
    environment,
    integration: key,
    id,
    credentials: {
      kind: {
        case: "oauth2",
        value: {
          accessToken: raw.access_token,
          refreshToken: raw.refresh_token,
          expiresAt: timestampFromMs(Date.now() + raw.expires_in * 1_000),
          raw: { ...raw, token_type: "Bearer" },
        },
      },
    },
    // What the sandbox says of a consent: by this her calendar's webhooks find her.
    ...(key === "calendar" && { connectionConfig: { emailAddressHash: emailHash(user) } }),
    tags: { tags: { [mark.name]: mark.value } },
  });
  return { grant, item };
}

/** True when it was done; false when it was refused for that. */
async function unless(code: FaultCode, done: Promise<unknown>): Promise<boolean> {
  try {
    await done;
    return true;
  } catch (error) {
    if (error instanceof Fault && error.code === code) return false;
    throw error;
  }
}
