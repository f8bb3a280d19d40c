import { create, type MessageInitShape } from "@bufbuild/protobuf";
import type { RulesOf, SchemeName } from "../../auth/scheme.ts";
import {
  type Integration,
  type IntegrationField,
  IntegrationField_Kind,
  IntegrationFieldSchema,
  type IntegrationSecrets,
  OAuthApp_Publishing,
  OAuthApp_PublishingSchema,
} from "../../gen/latchkey/v1/integration_pb.ts";
import {
  type ConnectionField,
  type IntegrationSetting,
  type OAuth1Rules,
  type OAuth2Rules,
  type Provider,
  ScopeNote_Sensitivity,
  type TokenRules,
} from "../../gen/latchkey/v1/provider_pb.ts";
import { wantsWebhookSecret } from "../notifications/proof.ts";

type FieldText = Omit<MessageInitShape<typeof IntegrationFieldSchema>, "$typeName"> & { readonly path: string };

/** What an integration has set already. */
export interface FilledIn {
  readonly integration?: Integration | undefined;
  readonly secrets?: IntegrationSecrets | undefined;
}

/** Returns the fields of an integration that matter for its provider: required ones first. */
export function integrationFields(provider: Provider, filled: FilledIn): IntegrationField[] {
  const found = [
    ...fieldsOfAuth(provider),
    ...provider.integrationSettings.map(settingField),
    ...webhookSecretField(provider),
    ...defaultFields(provider),
  ];
  return found
    .map((field) => create(IntegrationFieldSchema, { ...field, hasValue: hasValue(field.path, filled) }))
    .sort((one, other) => Number(other.required) - Number(one.required));
}

const titleOf = ({ displayName, name }: Provider): string => displayName || name;

const clientId = (of: string, title = "Client ID"): FieldText => ({
  path: "oauth.client_id",
  title,
  description: `Identifies your app at ${of}. It is not a secret.`,
  required: true,
});

const clientSecret = (of: string, title = "Client secret"): FieldText => ({
  path: "secrets.client_secret",
  title,
  description: `Proves to ${of} that a request comes from your app. It is stored encrypted and never shown again.`,
  required: true,
  secret: true,
});

const privateKey = (description: string): FieldText => ({
  path: "secrets.private_key",
  title: "Private key",
  description,
  example: "-----BEGIN PRIVATE KEY-----",
  required: true,
  secret: true,
  kind: IntegrationField_Kind.LINES,
});

const certificate = (required: boolean): readonly FieldText[] => [
  {
    path: "secrets.client_certificate",
    title: "Client certificate",
    description: "PEM certificate with its chain, for TLS connections to the provider.",
    example: "-----BEGIN CERTIFICATE-----",
    required,
    kind: IntegrationField_Kind.LINES,
  },
  {
    path: "secrets.client_private_key",
    title: "Private key of the certificate",
    description: "PEM key, not encrypted. Set it together with the certificate.",
    example: "-----BEGIN PRIVATE KEY-----",
    required,
    secret: true,
    kind: IntegrationField_Kind.LINES,
  },
];

const optional = (field: FieldText, description: string): FieldText => ({ ...field, description, required: false });
const noFields = (): readonly FieldText[] => [];

type FieldsOf<N extends SchemeName> = (rules: RulesOf<N>, of: string) => readonly FieldText[];

const fieldsByKind: { readonly [N in SchemeName]: FieldsOf<N> } = {
  oauth2: (rules, of) => [
    clientId(of),
    ...clientProof(rules, of),
    scopesField(rules),
    ...furtherScopeFields(rules),
    ...publishingField(rules, of),
  ],
  oauth2Client: (rules, of) => {
    const description = "Only for connections that have no client of their own.";
    return [optional(clientId(of), description), optional(clientSecret(of), description), scopesField(rules)];
  },
  oauth1: consumerFields,
  tba: consumerFields,
  app: (rules, of) => [
    ...(rules.installUrl === "" ? [] : [clientId(of), clientSecret(of)]),
    ...exchangeFields(rules, of),
  ],
  jwt: exchangeFields,
  clientCertificate: () => certificate(false),
  apiKey: noFields,
  basic: noFields,
  twoStep: exchangeFields,
  signature: noFields,
  awsSigv4: noFields,
  none: noFields,
  onBehalf: ({ authorizationServer: rules }, of) =>
    rules === undefined ? [] : [clientId(of), ...clientProof(rules, of), scopesField(rules)],
};

function fieldsOfAuth(provider: Provider): readonly FieldText[] {
  const { auth } = provider;
  if (auth.case === undefined) return [];
  const fields = fieldsByKind[auth.case] as FieldsOf<SchemeName>;
  return fields(auth.value, titleOf(provider));
}

/** How the app proves its identity at the token endpoint. */
function clientProof({ tokenEndpointAuthMethod }: OAuth2Rules, of: string): readonly FieldText[] {
  switch (tokenEndpointAuthMethod) {
    case "none":
      return [];
    case "private_key_jwt":
      return [privateKey(`PEM key that signs requests to ${of}. Register its public key there.`)];
    case "tls_client_auth":
      return certificate(true);
    default:
      return [clientSecret(of)];
  }
}

function consumerFields({ signatureMethod }: OAuth1Rules, of: string): readonly FieldText[] {
  const proof =
    signatureMethod === "RSA-SHA1"
      ? privateKey(`PEM key that signs requests to ${of}. Register its public key there.`)
      : clientSecret(of, "Consumer secret");
  return [clientId(of, "Consumer key"), proof];
}

function signingKey({ jwt }: TokenRules, of: string): readonly FieldText[] {
  if (jwt === undefined || jwt.keyField !== "") return [];
  return [privateKey(`PEM key of your app at ${of}. It signs the tokens of all connections.`)];
}

/** What an integration needs for a token that is created or exchanged. */
function exchangeFields(rules: TokenRules, of: string): readonly FieldText[] {
  const hasScopes = rules.defaultScopes.length + rules.scopeNotes.length > 0;
  return [...signingKey(rules, of), ...(hasScopes ? [scopesField(rules)] : [])];
}

const furtherScopeFields = ({ furtherTokens }: OAuth2Rules): readonly FieldText[] =>
  Object.entries(furtherTokens).map(([name, token]) => ({
    ...scopesField(token),
    path: `oauth.further_scopes.${name}`,
    title: `Scopes of the token "${name}"`,
    description:
      token.defaultScopes.length === 0
        ? "What end users are asked to allow for this token. Without scopes, there is no such token."
        : "What end users are asked to allow for this token.",
  }));

const scopesField = ({ defaultScopes, scopeNotes }: Pick<OAuth2Rules, "defaultScopes" | "scopeNotes">): FieldText => ({
  path: "oauth.scopes",
  title: "Scopes",
  description: "What end users are asked to allow. Request no more than you need.",
  kind: IntegrationField_Kind.SCOPES,
  options: scopeNotes.map(({ scope, meaning, sensitivity }) => ({ value: scope, description: meaning, sensitivity })),
  defaultValues: defaultScopes,
});

/** The publishing state matters only if it predicts something. */
function publishingField({ refreshTokens, scopeNotes }: OAuth2Rules, of: string): readonly FieldText[] {
  const isChecked = scopeNotes.some(({ sensitivity }) => sensitivity >= ScopeNote_Sensitivity.SENSITIVE);
  if (refreshTokens?.testingLifetime === undefined && !isChecked) return [];
  const option = (value: OAuthApp_Publishing, title: string, description: string) => ({
    value: OAuthApp_PublishingSchema.value[value]?.name ?? "",
    title,
    description,
  });
  return [
    {
      path: "oauth.publishing",
      title: "Publishing state",
      description: `The state of your app at ${of}. Latchkey warns of what it means for your users.`,
      kind: IntegrationField_Kind.CHOICE,
      options: [
        option(OAuthApp_Publishing.TESTING, "Testing", "Refresh tokens may expire after days."),
        option(OAuthApp_Publishing.PRODUCTION, "Production", "The provider has published the app."),
      ],
    },
  ];
}

function webhookSecretField(provider: Provider): readonly FieldText[] {
  if (!wantsWebhookSecret(provider)) return [];
  const { scheme = "", keyDefault = "" } = provider.notification?.signature ?? {};
  const of = titleOf(provider);
  const isIdentity = scheme === "jwt";
  const what = isIdentity
    ? `The identity that ${of} signs its webhooks as, such as the address of a service account.`
    : scheme === "shared_token"
      ? `The token that ${of} sends with each webhook.`
      : `${of} signs its webhooks with it. Several secrets: one a line.`;
  const empty = keyDefault === "" ? "Without it, webhooks are not verified." : "Empty: the client secret signs them.";
  return [
    {
      path: "secrets.webhook_secret",
      title: isIdentity ? "Webhook sender" : scheme === "shared_token" ? "Webhook token" : "Webhook signing secret",
      description: `${what} ${empty}`,
      secret: true,
      kind: IntegrationField_Kind.LINES,
    },
  ];
}

const settingField = ({
  name,
  title,
  description,
  example,
  pattern,
  required,
  secret,
}: IntegrationSetting): FieldText => ({
  path: `${secret ? "secrets.settings" : "settings"}.${name}`,
  title: title || name,
  description,
  example,
  pattern,
  required,
  secret,
});

const defaultFields = ({ connectionFields }: Provider): readonly FieldText[] =>
  connectionFields.filter(({ automatic }) => !automatic).map(defaultField);

const defaultField = ({ name, title, description, example, pattern, defaultValue }: ConnectionField): FieldText => ({
  path: `connection_defaults.${name}`,
  title: `${title || name} for all connections`,
  description: `${description === "" ? "" : `${description} `}Empty: each connection has its own.`,
  example,
  pattern,
  defaultValues: defaultValue === "" ? [] : [defaultValue],
});

function hasValue(path: string, { integration, secrets }: FilledIn): boolean {
  const { oauth, connectionDefaults = {} } = integration ?? {};
  switch (path) {
    case "oauth.client_id":
      return (oauth?.clientId ?? "") !== "";
    case "oauth.scopes":
      return (oauth?.scopes ?? []).length > 0;
    case "oauth.publishing":
      return (oauth?.publishing ?? OAuthApp_Publishing.UNSPECIFIED) !== OAuthApp_Publishing.UNSPECIFIED;
    case "secrets.client_secret":
      return (secrets?.clientSecret ?? "") !== "";
    case "secrets.webhook_secret":
      return (secrets?.webhookSecret ?? "") !== "";
    case "secrets.private_key":
      return (secrets?.privateKey ?? "") !== "";
    case "secrets.client_certificate":
      return (secrets?.clientCertificate ?? "") !== "";
    case "secrets.client_private_key":
      return (secrets?.clientPrivateKey ?? "") !== "";
    default:
      break;
  }
  const [, place, name = ""] =
    /^(secrets\.settings|settings|connection_defaults|oauth\.further_scopes)\.(.*)$/s.exec(path) ?? [];
  // An older version, or an older description, may have stored a secret among the others.
  const plain = integration?.settings[name] ?? "";
  switch (place) {
    case "secrets.settings":
      return (secrets?.settings[name] ?? "") !== "" || plain !== "";
    case "settings":
      return plain !== "";
    case "oauth.further_scopes":
      return (oauth?.furtherScopes[name]?.scopes ?? []).length > 0;
    default:
      return (connectionDefaults[name] ?? "") !== "";
  }
}
