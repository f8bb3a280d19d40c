import { create } from "@bufbuild/protobuf";
import { type Integration, Integration_Callback, IntegrationSchema } from "../../gen/latchkey/v1/integration_pb.ts";
import { type BodyField, inBody, type RefuseField } from "./body-fields.ts";
import type { ValuesOf } from "./field-shape.ts";

// Same limits as in the proto.
const maxDisplayName = 200;
const maxClientId = 4_096;
const maxSecret = 16_384;
const maxCertificate = 65_536;
const maxScopes = 200;
const maxUrl = 2_048;

/** Scopes with spaces or commas between. */
const scopes: BodyField<string[] | undefined> = {
  type: "string",
  description: "scopes, separated by spaces or commas",
  maxItems: maxScopes,
  read(fields, name) {
    const found = fields
      .text(name)
      ?.split(/[\s,]+/)
      .filter((one) => one !== "");
    if (found !== undefined && found.length > maxScopes) fields.refuse(name, `must have at most ${maxScopes} scopes`);
    return found;
  },
};

const app = {
  type: inBody.text,
  client_id: inBody.boundedText(maxClientId),
  // An installed app has an app id where others have a client id.
  app_id: inBody.boundedText(maxClientId),
  scopes,
  client_secret: inBody.boundedText(maxSecret),
  webhook_secret: inBody.boundedText(maxSecret),
  private_key: inBody.boundedText(maxSecret),
  client_certificate: inBody.boundedText(maxCertificate),
  client_private_key: inBody.boundedText(maxSecret),
};

const settings = {
  display_name: inBody.boundedText(maxDisplayName),
  callback: inBody.choice("shared", "bound"),
  forward_webhooks: inBody.flag,
  integration_config: inBody.textMap,
  settings: inBody.textMap,
  credentials: inBody.object(app),
};

export const newIntegrationBody = {
  unique_key: inBody.requiredText,
  provider: inBody.text,
  mcp_url: inBody.boundedText(maxUrl),
  ...settings,
};

export const updateBody = { unique_key: inBody.text, ...settings };

type IntegrationBody = ValuesOf<typeof updateBody> &
  Partial<Pick<ValuesOf<typeof newIntegrationBody>, "provider" | "mcp_url">>;

export function checkKey({ unique_key: key = "" }: Pick<IntegrationBody, "unique_key">, refuse: RefuseField): void {
  if (key === "" || /^[A-Za-z0-9][A-Za-z0-9_.~:@-]{0,254}$/.test(key)) return;
  refuse("unique_key", "must be at most 255 letters, digits and _ . ~ : @ -, and begin with a letter or digit");
}

/** Checks a new integration: it names a provider, or an MCP server. */
export function checkNewIntegration(body: IntegrationBody, refuse: RefuseField): void {
  checkKey(body, refuse);
  const { provider = "", mcp_url: mcpUrl = "" } = body;
  if (provider === "" && mcpUrl === "") refuse("provider", "is required, or `mcp_url` with the URL of an MCP server");
  if (provider !== "" && mcpUrl !== "") refuse("provider", "must be absent with `mcp_url`");
}

/** Returns the fields that a body sets, as paths of the proto. */
export function changedPaths({ credentials, ...body }: IntegrationBody): string[] {
  const values = {
    display_name: body.display_name,
    callback: body.callback,
    no_forward: body.forward_webhooks,
    connection_defaults: body.integration_config,
    settings: body.settings,
    "oauth.client_id": credentials && (credentials.client_id ?? credentials.app_id),
    "oauth.scopes": credentials?.scopes,
    "secrets.client_secret": credentials?.client_secret,
    "secrets.webhook_secret": credentials?.webhook_secret,
    "secrets.private_key": credentials?.private_key,
    "secrets.client_certificate": credentials?.client_certificate,
    "secrets.client_private_key": credentials?.client_private_key,
  };
  return Object.entries(values).flatMap(([path, value]) => (value === undefined ? [] : [path]));
}

const callbackForms = { shared: Integration_Callback.SHARED, bound: Integration_Callback.BOUND } as const;

export function integrationOf(body: IntegrationBody, environment: string): Integration {
  const { credentials } = body;
  return create(IntegrationSchema, {
    environment,
    key: body.unique_key ?? "",
    provider: body.provider ?? "",
    mcpUrl: body.mcp_url ?? "",
    displayName: body.display_name ?? "",
    ...(body.callback !== undefined && { callback: callbackForms[body.callback] }),
    noForward: body.forward_webhooks === false,
    connectionDefaults: body.integration_config ?? {},
    settings: body.settings ?? {},
    ...(credentials !== undefined && { oauth: oauthOf(credentials), secrets: secretsOf(credentials) }),
  });
}

type AppJson = ValuesOf<typeof app>;

const oauthOf = ({ client_id: clientId, app_id: appId = "", scopes = [] }: AppJson) => ({
  clientId: clientId ?? appId,
  scopes,
});

const secretsOf = (credentials: AppJson) => ({
  clientSecret: credentials.client_secret ?? "",
  webhookSecret: credentials.webhook_secret ?? "",
  privateKey: credentials.private_key ?? "",
  clientCertificate: credentials.client_certificate ?? "",
  clientPrivateKey: credentials.client_private_key ?? "",
});
