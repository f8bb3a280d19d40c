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
/** The tag of connections that each start replaces. A developer who removes the tag keeps the connection. */
const mark = { name: "made-by", value: "latchkey-dev" } as const;

/** The sample integrations, by the sandbox provider that they use. */
const integrations = [
  { key: "calendar", provider: "sandbox-calendar", displayName: "Sandbox calendar" },
  { key: "files", provider: "sandbox-files", displayName: "Sandbox files" },
  { key: "unified", provider: "sandbox-unified", displayName: "Sandbox files, mail, calendar and spreadsheets" },
] as const;

/** Ada's connections, one for each integration. */
export const connections: readonly string[] = integrations.map(({ key }) => `${key}/${id}`);

/** The sample data that `latchkey dev` created. */
export interface SeededData {
  /** The sandbox's grant behind each connection, by integration. */
  readonly grants: ReadonlyMap<string, string>;
  /** Sample connections that were not replaced, since the developer has changed them. */
  readonly kept: readonly string[];
  /** The path of the calendar's webhooks on the data listener. */
  readonly webhookPath: string;
}

/**
 * Creates the sandbox's providers, the sample integrations, and a connection for each. The sandbox forgets its grants
 * when it stops, so each start gives these connections new tokens. A developer's own records are not changed.
 */
export async function seed({ broker }: Sidecar, sandbox: Sandbox): Promise<SeededData> {
  const descriptions = describeProviders(sandbox.origin).map(readProvider);
  for (const provider of descriptions) await ensureProvider(broker.providers, provider);
  const grants = new Map<string, string>();
  const kept: string[] = [];
  for (const wanted of integrations) {
    const isReplaceable =
      (await ensureIntegration(broker.integrations, wanted)) && (await isUnclaimed(broker.connections, wanted));
    if (isReplaceable) {
      const { grant, item } = grantConnection(sandbox, wanted, descriptions);
      await broker.imports.importOne(item, actor);
      grants.set(wanted.key, grant);
    } else kept.push(`${wanted.key}/${id}`);
  }
  const { value: calendar } = await broker.integrations.get({ environment, key: "calendar" });
  const { pathname: webhookPath } = new URL(await broker.webhookUrls.of(calendar));
  return { grants, kept, webhookPath };
}

type SidecarBroker = Sidecar["broker"];
type SampleIntegration = (typeof integrations)[number];

/** Creates a provider, or updates it if the sandbox has moved. One that a configuration file declares is not changed. */
async function ensureProvider(providers: SidecarBroker["providers"], wanted: Provider): Promise<void> {
  const isNew = await unless("already_exists", providers.create(wanted, actor));
  if (isNew || isSame(providers.find(wanted.name), wanted)) return;
  await unless("read_only", providers.update({ provider: wanted, expectedRevision: 0n }, actor));
}

function isSame({ createdAt: _, updatedAt: __, ...known }: Provider, wanted: Provider): boolean {
  return equals(ProviderSchema, { ...known, custom: false, declared: false, revision: 0n }, wanted);
}

/** Creates an integration unless its key is taken. False if the existing one cannot use the sandbox's grants. */
async function ensureIntegration(
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

/** Whether a connection does not exist, or is a sample connection. */
async function isUnclaimed(connections: SidecarBroker["connections"], { key }: SampleIntegration): Promise<boolean> {
  const [found] = await connections.getMany([
    { $typeName: "latchkey.v1.ConnectionRef", environment, integration: key, id },
  ]);
  return found === undefined || found.tags[mark.name] === mark.value;
}

/** Returns a connection with the tokens that a user's consent would give. */
function grantConnection(sandbox: Sandbox, { key, provider }: SampleIntegration, descriptions: readonly Provider[]) {
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
    // Webhooks of her calendar find the connection by this hash.
    ...(key === "calendar" && { connectionConfig: { emailAddressHash: emailHash(user) } }),
    tags: { tags: { [mark.name]: mark.value } },
  });
  return { grant, item };
}

/** Returns true, or false if the change was refused with that code. */
async function unless(code: FaultCode, change: Promise<unknown>): Promise<boolean> {
  try {
    await change;
    return true;
  } catch (error) {
    if (error instanceof Fault && error.code === code) return false;
    throw error;
  }
}
