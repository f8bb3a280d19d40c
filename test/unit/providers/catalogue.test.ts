import { readdirSync, readFileSync } from "node:fs";
import { create, fromBinary, type JsonObject, toBinary } from "@bufbuild/protobuf";
import { describe, expect, it } from "vitest";
import { parse } from "yaml";
import { attachedNames, attachmentOf } from "../../../src/auth/attachment.ts";
import { checkConnectionConfig } from "../../../src/core/connection-rules.ts";
import { bindingOf } from "../../../src/core/outgoing/binding.ts";
import { filledUrl, UnboundHost } from "../../../src/core/outgoing/filled-url.ts";
import { ConnectionSchema } from "../../../src/gen/latchkey/v1/connection_pb.ts";
import { CredentialsSchema } from "../../../src/gen/latchkey/v1/credentials_pb.ts";
import { IntegrationSchema } from "../../../src/gen/latchkey/v1/integration_pb.ts";
import {
  type ApiKeyRules,
  type OAuth2Rules,
  type Provider,
  ProviderSchema,
  ScopeNote_Sensitivity,
} from "../../../src/gen/latchkey/v1/provider_pb.ts";
import { loadCatalogue } from "../../../src/providers/catalogue.ts";
import { readProvider } from "../../../src/providers/read.ts";
import type { Kind } from "../auth/fixtures.ts";

const folder = new URL("../../../src/providers/catalogue/", import.meta.url);
const recipes = new URL("../../../docs/providers/", import.meta.url);
const files = readdirSync(folder).sort();
const textOf = (file: string) => readFileSync(new URL(file, folder), "utf8");
const catalogue = loadCatalogue();
const all: readonly (readonly [string, Provider])[] = [...catalogue];

const get = (name: string): Provider => {
  const provider = catalogue.get(name);
  if (provider === undefined) throw new Error(`there is no ${name}`);
  return provider;
};
const oauth2Of = (name: string): OAuth2Rules => {
  const { auth } = get(name);
  if (auth.case !== "oauth2") throw new Error(`${name} is not OAuth 2`);
  return auth.value;
};
const ofOAuth2 = all.flatMap(([name, { auth }]) => (auth.case === "oauth2" ? [[name, auth.value] as const] : []));

/**
 * A provider with documentation is real, unless it is a protocol without credentials. The others are neutral, stand-ins
 * for trying things out, or one's own API.
 */
const isReal = ({ docsUrl, auth }: Provider): boolean => docsUrl !== "" && auth.case !== "none";

const categories = [
  ...["calendar", "file-storage", "mail", "spreadsheets", "documents", "databases", "communication", "crm", "support"],
  ...["developer-tools", "project-management", "payments", "e-commerce", "accounting", "erp", "marketing", "social"],
  ...["hr", "recruiting", "scheduling", "forms", "e-signature", "design", "analytics", "identity", "infrastructure"],
  ...["ai", "sport", "media", "productivity", "example", "other"],
];

/** Providers that the customer hosts: only the customer knows where they are. */
const selfHosted = ["private-api-key", "private-api-basic", "websub", "woocommerce"];

const secret = "s3cr3t-canary";
/** Sample credentials of the kinds that the catalogue has. */
const samples: Readonly<Record<string, Kind>> = {
  oauth2: { case: "oauth2", value: { accessToken: secret } },
  apiKey: { case: "apiKey", value: { apiKey: secret } },
  basic: { case: "basic", value: { username: "user", password: secret } },
  oauth1: { case: "oauth1", value: { oauthToken: "token", oauthTokenSecret: secret } },
  tba: { case: "tba", value: { tokenId: "token", tokenSecret: secret } },
  oauth2Client: { case: "oauth2Client", value: { clientId: "id", token: secret } },
  twoStep: { case: "twoStep", value: { token: secret } },
  jwt: { case: "jwt", value: { token: secret } },
  app: { case: "app", value: { accessToken: secret } },
  none: { case: "none", value: {} },
  awsSigv4: {
    case: "awsSigv4",
    value: { accessKeyId: "id", secretAccessKey: secret, region: "eu-central-1", service: "s3" },
  },
};

it("has a provider for each file of the folder, and no other", () => {
  expect([...catalogue.keys()].map((name) => `${name}.yaml`).sort()).toEqual(files);
});

it("says for each real provider where its app gets the redirect URI, and where its client is found", () => {
  const real = all.filter(([, provider]) => isReal(provider));
  for (const [name, { auth, setupSteps }] of real) {
    const values = setupSteps.map(({ value }) => value);
    expect([name, values.length > 1]).toEqual([name, true]);
    if (auth.case === "oauth2")
      expect([name, values]).toEqual([name, expect.arrayContaining(["callback_url", "client"])]);
    expect([name, new Set(values.filter((one) => one !== "")).size]).toEqual([name, values.filter(Boolean).length]);
  }
});

it("has evidence for each real provider", () => {
  expect(all.filter(([, of]) => isReal(of) && of.evidence.length === 0).map(([name]) => name)).toEqual([]);
  for (const [name, { evidence }] of all) {
    const seen = evidence.map(({ url, parts }) => `${url} ${[...parts].sort().join()}`);
    expect([name, new Set(seen).size]).toEqual([name, seen.length]);
  }
});

it("names each recipe in the index", () => {
  const index = readFileSync(new URL("README.md", recipes), "utf8");
  const others = readdirSync(recipes).filter((file) => file !== "README.md");
  expect(others.filter((file) => !index.includes(`](${file})`))).toEqual([]);
});

describe.each(all)("%s", (name, provider) => {
  const { auth, proxy, connectionFields, categories: own, describe: rules, verification } = provider;
  const examples: JsonObject = Object.fromEntries(connectionFields.map(({ name: of, example }) => [of, example]));

  it("is read from the file of its name, and survives the wire", () => {
    expect(files).toContain(`${name}.yaml`);
    // An edited file without `npm run generate` would differ from what latchkey loads.
    expect(readProvider(parse(textOf(`${name}.yaml`)))).toEqual(provider);
    expect(fromBinary(ProviderSchema, toBinary(ProviderSchema, provider))).toEqual(provider);
  });

  it("names known categories and auth kinds", () => {
    expect(provider.displayName).not.toBe("");
    expect(own.length).toBeGreaterThan(0);
    expect(own.filter((one) => !categories.includes(one))).toEqual([]);
    for (const url of [provider.docsUrl, provider.consoleUrl]) expect(url).toMatch(/^$|^https:\/\//);
  });

  it("uses https only", () => {
    expect(textOf(`${name}.yaml`)).not.toMatch(/http:\/\//);
    expect(proxy?.baseUrl).toMatch(/^https:\/\//);
  });

  it("has examples and defaults that its own fields allow, and that lead somewhere", () => {
    expect(connectionFields.filter(({ example, title, description }) => !example || !title || !description)).toEqual(
      [],
    );
    expect(checkConnectionConfig(examples, connectionFields)).toEqual([]);
    const connection = create(ConnectionSchema, { connectionConfig: examples });
    const binding = bindingOf({ connection, integration: create(IntegrationSchema), provider });
    expect(binding.addressFor("/").origin).toMatch(/^https:\/\/[a-z0-9.-]+$/);
    for (const { origin, prefix } of proxy?.hosts ?? []) {
      expect(binding.addressAt(origin)?.origin).toBe(origin);
      if (prefix !== "") expect(binding.addressFor(`${prefix}x`).origin).toBe(origin);
    }
  });

  it("has no other hosts, whatever a connection contains", () => {
    const names = connectionFields.map((field) => field.name);
    const evils = ["evil.test", "evil.test/x", "https://evil.test", "evil.test#", "x@evil.test", "evil.test\\"];
    // If the customer names the host, the customer chooses it.
    for (const evil of selfHosted.includes(name) ? evils.slice(1) : evils) {
      const config = Object.fromEntries(names.map((of) => [of, evil]));
      const urls = [proxy?.baseUrl ?? "", ...(auth.case === "oauth2" ? endpointsOf(auth.value) : [])].filter(
        (url) => url !== "",
      );
      for (const url of urls) {
        const filled = outcome(() => filledUrl(url, { fields: connectionFields, config, defaults: {} }));
        if (filled !== undefined) expect(new URL(filled).hostname).not.toMatch(/evil/);
      }
    }
  });

  it("attaches sample credentials where described, and never to a URL", () => {
    const kind = samples[auth.case ?? ""];
    if (kind === undefined) throw new Error(`there are no sample credentials for ${auth.case}`);
    const credentials = create(CredentialsSchema, { kind });
    const client = { id: "id", secret: "consumer", privateKey: "" };
    const attachment = attachmentOf({ credentials, provider, client, connectionConfig: examples, nowMs: 0 });
    if (attachment.kind === "signing") return expect(attachment.headerNames).toContain("authorization");
    if (placementOf(provider)?.query)
      return expect(attachedNames(provider).query).toEqual([placementOf(provider)?.query]);
    expect(attachment.query).toEqual([]);
    const placed = attachment.headers.map(([header]) => header);
    if (auth.case === "none") return expect(placed).toEqual([]);
    expect(placed).toEqual([placementOf(provider)?.header || "authorization"]);
    expect(attachedNames(provider)).toEqual({ headers: placed, query: [] });
    const [[, value = ""] = []] = attachment.headers;
    const shown = auth.case === "basic" ? Buffer.from(value.slice("Basic ".length), "base64").toString() : value;
    expect(shown).toContain(secret);
  });

  it("verifies and describes with requests to its own API, for fields that exist", () => {
    for (const { request, field, value } of rules) {
      expect(request?.path).toMatch(/^\/[^/]/);
      expect([field, value]).not.toContain("");
    }
    // An unknown API cannot be verified.
    if (isReal(provider)) expect(verification?.request?.path).toMatch(/^\/[^/]/);
    for (const request of [...rules.map((rule) => rule.request), verification?.request]) {
      const used = [...(request?.path ?? "").matchAll(/\$\{connectionConfig\.(\w+)\}/g)].map(([, one]) => one);
      expect(connectionFields.map((one) => one.name)).toEqual(expect.arrayContaining(used));
    }
  });

  it("never forwards the headers that prove a notification", () => {
    const { signature, headerPrefix = "", secretHeaders = [] } = provider.notification ?? {};
    if (signature === undefined) return;
    expect(signature.scheme).not.toBe("");
    const isTold = headerPrefix !== "" && signature.header.startsWith(headerPrefix);
    if (isTold) expect(secretHeaders).toContain(signature.header);
  });

  it("takes the values of notifications from somewhere, and looks up no others", () => {
    const {
      values = {},
      lookups = [],
      messageId = [],
      channel,
      number,
      state,
      resourceId,
      kind,
      lifecycle = [],
    } = provider.notification ?? {};
    const { mode, lifetime, resource } = provider.channel?.confirmation ?? {};
    for (const { header, body, query, form } of Object.values(values)) {
      expect([header, body, query, form].filter((one) => one !== "")).toHaveLength(1);
    }
    const others = [channel, number, state, resourceId, kind, mode, lifetime, resource].filter(
      (one) => one !== undefined && one !== "",
    );
    const used = [...[...lookups, ...lifecycle].map(({ value }) => value), ...messageId, ...others];
    expect(Object.keys(values).sort()).toEqual([...new Set(used)].sort());
  });

  it("can verify its notifications, and match them to connections", () => {
    const { notification } = provider;
    if (notification === undefined) return;
    expect(notification.signature?.scheme).not.toBe("");
    // Webhooks that name no account are passed on unmatched. Then the kind or the channel, at least, must be known.
    if (notification.lookups.length === 0 && notification.channel === "") expect(notification.kind).not.toBe("");
  });
});

describe.each(ofOAuth2)("%s as an OAuth 2 provider", (name, rules) => {
  it("has a base URL", () => {
    expect(rules.authorizationUrl).not.toBe("");
    expect(rules.tokenUrl).not.toBe("");
  });

  it("describes and classifies each scope, all default scopes included", () => {
    const { scopeNotes, defaultScopes } = rules;
    const vague = scopeNotes.filter(
      ({ meaning, sensitivity }) => meaning === "" || sensitivity === ScopeNote_Sensitivity.UNSPECIFIED,
    );
    expect(vague).toEqual([]);
    const noted = scopeNotes.map(({ scope }) => scope);
    if (noted.length > 0) expect(noted).toEqual(expect.arrayContaining(defaultScopes));
    // Some have no scopes, such as Notion.
    expect(noted.length > 0 || defaultScopes.length === 0).toBe(true);
  });

  it("requests no default scope that needs verification", () => {
    const classOf = (scope: string) => rules.scopeNotes.find((note) => note.scope === scope)?.sensitivity;
    const needy = rules.defaultScopes.filter((scope) => (classOf(scope) ?? 1) > ScopeNote_Sensitivity.BASIC);
    expect(needy).toEqual([]);
  });

  it("requests the scope that refresh tokens need", () => {
    const { scopes = [] } = rules.refreshTokens ?? {};
    if (scopes.length > 0) expect(rules.defaultScopes.some((scope) => scopes.includes(scope))).toBe(true);
  });

  it("accepts only hosts within the provider's own domain", () => {
    for (const of of Object.keys(rules.tokenAnswer?.connectionConfig ?? {})) {
      const field = get(name).connectionFields.find((one) => one.name === of);
      expect(field?.automatic).toBe(true);
      expect([field?.suffixes, field?.pattern]).not.toEqual([[], ""]);
    }
  });
});

const endpointsOf = (rules: OAuth2Rules) => [
  rules.authorizationUrl,
  rules.tokenUrl,
  rules.refreshUrl,
  rules.revocationUrl,
  rules.deviceAuthorizationUrl,
];

function placementOf({ auth }: Provider): ApiKeyRules | undefined {
  if (auth.case === "oauth2" || auth.case === "oauth2Client") return auth.value.placement;
  if (auth.case === "twoStep" || auth.case === "jwt" || auth.case === "app") return auth.value.placement;
  return auth.case === "apiKey" ? auth.value : undefined;
}

function outcome<T>(act: () => T): T | undefined {
  try {
    return act();
  } catch (error) {
    if (error instanceof UnboundHost) return undefined;
    throw error;
  }
}

describe("the particulars", () => {
  const fill = (name: string, url: string, config: JsonObject) =>
    filledUrl(url, { fields: get(name).connectionFields, config, defaults: {} });

  it.each([
    ["shopify", "subdomain", "https://acme.myshopify.com/admin/oauth/access_token"],
    ["zendesk", "subdomain", "https://acme.zendesk.com/oauth/tokens"],
  ])("obtains tokens of %s where the account is", (name, field, url) => {
    const { tokenUrl } = oauth2Of(name);
    expect(fill(name, tokenUrl, { [field]: "acme" })).toBe(url);
    for (const evil of [
      "evil.test/x",
      "evil.test",
      "acme.evil",
      "acme#",
      "acme/",
      "",
      "..",
      "ACME",
      "acme\n",
      "-acme",
    ]) {
      expect({ evil, url: outcome(() => fill(name, tokenUrl, { [field]: evil })) }).toEqual({ evil, url: undefined });
      expect(checkConnectionConfig({ [field]: evil }, get(name).connectionFields)).toHaveLength(1);
    }
    expect(() => fill(name, tokenUrl, {})).toThrow(UnboundHost);
  });

  it("believes Salesforce where the API is, within Salesforce", () => {
    const { connectionFields, proxy } = get("salesforce");
    const at = (instance_url: string) => outcome(() => fill("salesforce", proxy?.baseUrl ?? "", { instance_url }));
    const instance = "https://acme--test.sandbox.my.salesforce.com";
    expect(at(instance)).toBe(instance);
    expect(at(`${instance}/`)).toBe(instance);
    for (const evil of [
      ...[
        "https://evil.test",
        "https://salesforce.com.evil.test",
        "https://evilsalesforce.com",
        "http://a.salesforce.com",
      ],
      ...["https://acme.my.salesforce.com@evil.test", "https://acme.my.site.com", "https://evil.test/.salesforce.com"],
      ...["https://acme.force.com", "https://a.salesforce.com/services", "https://a.salesforce.com."],
    ]) {
      expect({ evil, at: at(evil) }).toEqual({ evil, at: undefined });
      expect(checkConnectionConfig({ instance_url: evil }, connectionFields)).toHaveLength(1);
    }
    const { tokenUrl } = oauth2Of("salesforce");
    expect(fill("salesforce", tokenUrl, {})).toBe("https://login.salesforce.com/services/oauth2/token");
    expect(fill("salesforce", tokenUrl, { domain: "test.salesforce.com" })).toContain("https://test.salesforce.com/");
    expect(() => fill("salesforce", tokenUrl, { domain: "evil.test" })).toThrow(UnboundHost);
  });

  it("knows Microsoft's tenants, and takes none for a path", () => {
    const { tokenUrl } = oauth2Of("microsoft");
    const at = (tenant: string) => outcome(() => fill("microsoft", tokenUrl, { tenant }));
    const host = "https://login.microsoftonline.com";
    expect(fill("microsoft", tokenUrl, {})).toBe(`${host}/common/oauth2/v2.0/token`);
    for (const tenant of ["organizations", "contoso.onmicrosoft.com", "72f988bf-86f1-41af-91ab-2d7cd011db47"]) {
      expect(at(tenant)).toBe(`${host}/${tenant}/oauth2/v2.0/token`);
    }
    for (const evil of ["..", "a/b", "x?y", "%2e%2e", "other", "-"])
      expect({ evil, at: at(evil) }).toEqual({ evil, at: undefined });
  });

  it("does not let an end user name a self-managed GitLab's host", () => {
    expect(get("gitlab").connectionFields).toEqual([]);
  });

  it.each(["google", "google-calendar", "google-drive", "google-mail", "google-sheet"])(
    "asks %s for lasting access",
    (name) => {
      const { authorizationParams, incrementalParams, refreshTokens } = oauth2Of(name);
      expect(authorizationParams).toEqual({ access_type: "offline", prompt: "consent" });
      expect(incrementalParams).toEqual({ include_granted_scopes: "true" });
      expect(refreshTokens?.testingLifetime?.seconds).toBe(604_800n);
      expect(refreshTokens?.maxPerAccount).toBe(100);
    },
  );

  it.each([
    ["drive", ScopeNote_Sensitivity.RESTRICTED],
    ["drive.file", ScopeNote_Sensitivity.BASIC],
    ["gmail.readonly", ScopeNote_Sensitivity.RESTRICTED],
    ["gmail.send", ScopeNote_Sensitivity.SENSITIVE],
    ["calendar", ScopeNote_Sensitivity.SENSITIVE],
    ["userinfo.email", ScopeNote_Sensitivity.BASIC],
  ])("classes Google's %s", (scope, sensitivity) => {
    const note = oauth2Of("google").scopeNotes.find((one) => one.scope === `https://www.googleapis.com/auth/${scope}`);
    expect(note?.sensitivity).toBe(sensitivity);
  });

  it("sends the whole family's paths to the host that serves them", () => {
    const provider = get("google");
    const made = { connection: create(ConnectionSchema), integration: create(IntegrationSchema), provider };
    const { addressFor, addressAt } = bindingOf(made);
    expect(addressFor("/drive/v3/files").origin).toBe("https://www.googleapis.com");
    expect(addressFor("/calendar/v3/calendars").origin).toBe("https://www.googleapis.com");
    expect(addressFor("/gmail/v1/users/me").origin).toBe("https://gmail.googleapis.com");
    expect(addressFor("/v4/spreadsheets/x").origin).toBe("https://sheets.googleapis.com");
    expect(addressAt("https://storage.googleapis.com")).toBeUndefined();
  });

  it("reads the same notification from Google's calendar as from the neutral one", () => {
    const text = (name: string) => {
      const { lookups, ...rest } = parse(textOf(`${name}.yaml`)).notification;
      // Google's look up further names, which other programs write.
      const common = lookups.filter(({ field }: { readonly field: string }) => !field.includes(".google"));
      return JSON.stringify({ ...rest, lookups: common });
    };
    expect(text("google-calendar").replaceAll("x-goog-", "x-cal-")).toBe(text("calendar"));
    const paths = (name: string) => JSON.stringify(parse(textOf(`${name}.yaml`)).channel.resources.events);
    expect(paths("google-calendar").replaceAll("/calendar/v3/", "/v3/")).toBe(paths("calendar"));
  });

  it.each([
    ["github", { scheme: "hmac", header: "x-hub-signature-256", hash: "sha256", encoding: "hex", prefix: "sha256=" }],
    ["slack", { header: "x-slack-signature", prefix: "v0=", content: "v0:${timestamp}:${body}" }],
    ["shopify", { header: "x-shopify-hmac-sha256", hash: "sha256", encoding: "base64" }],
    ["notion", { header: "x-notion-signature", prefix: "sha256=" }],
    ["zendesk", { encoding: "base64", content: "${timestamp}${body}" }],
    ["linear", { header: "linear-signature", encoding: "hex" }],
    ["gitlab", { scheme: "shared_token", header: "x-gitlab-token" }],
    ["stripe", { header: "stripe-signature", part: "v1", timestampPart: "t", content: "${timestamp}.${body}" }],
    [
      "hubspot",
      { header: "x-hubspot-signature-v3", content: "${method}${plain_url}${body}${timestamp}", timestampUnit: "ms" },
    ],
    ["twilio", { hash: "sha1", encoding: "base64", content: "${url}${form}", bodyHashQuery: "bodySHA256" }],
    ["microsoft", { scheme: "shared_token", body: "value.*.clientState" }],
    ["asana", { header: "x-hook-signature" }],
    ["airtable", { header: "x-airtable-content-mac", prefix: "hmac-sha256=", keyEncoding: "base64" }],
    ["google-mail", { scheme: "jwt", identityClaim: "email", issuer: "https://accounts.google.com" }],
    ["google-drive", { scheme: "channel_token", header: "x-goog-channel-token" }],
  ])("knows how %s signs", (name, signature) => {
    expect(get(name).notification?.signature).toMatchObject(signature);
  });

  it.each([
    ["github", "client_secret_post", "", false],
    ["notion", "client_secret_basic", "json", true],
    ["airtable", "client_secret_basic", "", false],
    ["jira", "client_secret_post", "json", false],
    ["slack", "client_secret_post", "", true],
    ["shopify", "client_secret_post", "", true],
  ])("knows how a client shows itself to %s", (name, method, format, noPkce) => {
    const { tokenEndpointAuthMethod, tokenRequestFormat, noPkce: without } = oauth2Of(name);
    expect({ tokenEndpointAuthMethod, tokenRequestFormat, without }).toEqual({
      tokenEndpointAuthMethod: method,
      tokenRequestFormat: format,
      without: noPkce,
    });
  });

  it("knows how Shopify signs its callback and where it wants the token", () => {
    const { callbackSignature, placement, tokenParams } = oauth2Of("shopify");
    expect(callbackSignature).toMatchObject({ parameter: "hmac", hash: "sha256", encoding: "hex" });
    expect(placement?.header).toBe("x-shopify-access-token");
    expect(tokenParams).toEqual({ expiring: "1" });
  });

  it.each([
    ["github", "bad_refresh_token"],
    ["slack", "token_revoked"],
    ["hubspot", "bad_refresh_token"],
  ])("recognizes the revoked grant of %s", (name, code) => {
    expect(oauth2Of(name).deadGrantErrors).toContain(code);
  });
});
