import { readFileSync } from "node:fs";
import { parse } from "yaml";
import { allowPrivateFor } from "../../../../src/dev/sandbox/providers.ts";
import { ChannelService } from "../../../../src/gen/latchkey/v1/channel_pb.ts";
import { type Application, startApplication } from "../../../support/peers/application.ts";
import { startTestSidecar } from "../../../support/sidecar/harness.ts";
import { started } from "../../sandbox/started.ts";
import { type Clock, dayMs, hourMs, startClock } from "../channels.ts";
import { styles } from "./styles.ts";

/** A kind of channels of the catalogue, and how it is tried. */
export interface Kind {
  readonly provider: string;
  readonly resourceKind: string;
  /** Resources of each connection. Empty: the default one. */
  readonly resources: readonly string[];
  /** Each connection has its own resource: the provider does not know connections. */
  readonly isShared?: true;
  /** Undefined: channels have no end. */
  readonly lifeMs: number | undefined;
  readonly connectionConfig?: Readonly<Record<string, string>>;
  readonly settings?: Readonly<Record<string, string>>;
}

const cloudId = "11223344-a1b2-3b33-c444-def123456789";
const topic = { settings: { topic: "projects/my-project/topics/gmail" } };

export const kinds: readonly Kind[] = [
  { provider: "google-drive", resourceKind: "file", resources: ["f-1"], lifeMs: dayMs },
  { provider: "google-drive", resourceKind: "changes", resources: [], lifeMs: 7 * dayMs },
  { provider: "google-mail", resourceKind: "mailbox", resources: [], lifeMs: 7 * dayMs, ...topic },
  { provider: "google", resourceKind: "users", resources: [], lifeMs: 6 * hourMs },
  { provider: "microsoft", resourceKind: "mail", resources: [], lifeMs: 253_800_000 },
  { provider: "airtable", resourceKind: "base", resources: ["appBase1"], lifeMs: 7 * dayMs },
  {
    provider: "jira",
    resourceKind: "issues",
    resources: ["project = ABC", "project = XYZ"],
    lifeMs: 30 * dayMs,
    connectionConfig: { cloudId },
  },
  {
    provider: "zoho-crm",
    resourceKind: "module",
    resources: [],
    lifeMs: 7 * dayMs,
    connectionConfig: { apiDomain: "https://www.zohoapis.eu" },
  },
  {
    provider: "asana",
    resourceKind: "resource",
    resources: ["1201"],
    lifeMs: undefined,
    connectionConfig: { workspace: "1331" },
  },
  {
    provider: "twitch",
    resourceKind: "events",
    resources: [],
    lifeMs: undefined,
    connectionConfig: { userId: "14198176" },
  },
  {
    provider: "strava",
    resourceKind: "events",
    resources: [],
    lifeMs: undefined,
    settings: { verifyToken: "k3Jd92mFq0" },
  },
  {
    provider: "websub",
    resourceKind: "topic",
    resources: ["https://feeds.example/"],
    isShared: true,
    lifeMs: 10 * dayMs,
  },
];

/** The catalogue's description of a provider, with the sandbox in place of the provider. */
export function describedAt(origin: string, name: string): Record<string, unknown> {
  const at = new URL(`../../../../src/providers/catalogue/${name}.yaml`, import.meta.url);
  const description = parse(readFileSync(at, "utf8"));
  const secure = origin.replace(/^http:/, "https:");
  const { oauth2, proxy, describe: _, verification: _v, evidence: _e, ...rest } = description;
  const { metadata_url: _m, device_authorization_url: _d, issuer: _i, callback_config: _c, ...kept } = oauth2 ?? {};
  return {
    ...rest,
    name: `kind-${name}`,
    ...(oauth2 && {
      oauth2: {
        ...kept,
        authorization_url: `${origin}/oauth2/auth`,
        token_url: `${secure}/oauth2/token`,
        revocation_url: `${secure}/oauth2/revoke`,
      },
    }),
    proxy: { ...proxy, base_url: secure, hosts: [] },
    ...(name === "websub" && {
      connection_fields: rest.connection_fields.filter((one: { name: string }) => one.name !== "hub"),
    }),
  };
}

/** A sidecar with these providers, and a sandbox that plays them. */
export async function startKinds(
  names: readonly string[],
  more: { readonly clock?: Clock; readonly folder?: string } = {},
) {
  const clock = more.clock ?? startClock();
  const sandbox = await started({ now: clock.now, styles });
  sandbox.behave({ accessTokenLifetimeS: 10 * 365 * 86_400, maxRefreshTokens: 10_000 });
  const application: Application = await startApplication();
  const env = {
    LATCHKEY_ALLOW_PRIVATE: allowPrivateFor(sandbox.origin),
    LATCHKEY_FORWARD_URL: application.url,
    LATCHKEY_CONFIG: "/latchkey.yaml",
  };
  const file = JSON.stringify({ providers: [...new Set(names)].map((name) => describedAt(sandbox.origin, name)) });
  const start = (folder?: string) =>
    startTestSidecar({ ...(folder && { folder }), now: clock.now, env, files: { "/latchkey.yaml": file } });
  const sidecar = await start(more.folder);
  return {
    sandbox,
    application,
    clock,
    sidecar,
    env,
    file,
    /** Starts another sidecar over a store. */
    start,
    rpc: () => sidecar.client(ChannelService),
    keep: () => sidecar.sidecar.broker.keepChannels(),
    async integrate({ provider, settings = {} }: Kind, more: Readonly<Record<string, unknown>> = {}) {
      const { IntegrationService } = await import("../../../../src/gen/latchkey/v1/integration_pb.ts");
      const integration = {
        environment: "dev",
        key: provider,
        provider: `kind-${provider}`,
        oauth: { clientId: "sandbox" },
        secrets: { clientSecret: "sandbox-secret" },
        settings,
        ...more,
      };
      await sidecar.client(IntegrationService).createIntegration({ integration });
    },
    async connect({ provider, connectionConfig = {} }: Kind, id: string) {
      const { access_token, refresh_token } = sandbox.grant();
      const config = Object.fromEntries(
        Object.entries(connectionConfig).map(([name, value]) => [
          name,
          name === "userId" ? value + id.slice(1) : value,
        ]),
      );
      const credentials = provider === "websub" ? { type: "NONE" } : { type: "OAUTH2", access_token, refresh_token };
      const { status, body } = await sidecar.rest("POST", "/connections", {
        body: { provider_config_key: provider, connection_id: id, credentials, connection_config: config },
      });
      if (status !== 201) throw new Error(`the connection was not made: ${JSON.stringify(body)}`);
    },
    ref: ({ provider }: Kind, id: string) => ({ environment: "dev", integration: provider, id }),
    async channels(integration: string) {
      return (await sidecar.client(ChannelService).listChannels({ environment: "dev", integration, pageSize: 1_000 }))
        .channels;
    },
    forwards: (type: string) => application.seen.map(({ body }) => JSON.parse(body)).filter((one) => one.type === type),
  };
}
