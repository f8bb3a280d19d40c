/** Generates the JSON Schema of the configuration file, with a description for each key. */
import { toJsonSchema } from "@valibot/to-json-schema";
import { fileSchema } from "../src/config/file.ts";

type Schema = Readonly<Record<string, unknown>>;

/** By path, without the indexes of lists. `*.NAME` describes a key of several maps. */
const descriptions: Readonly<Record<string, string>> = {
  environments: "Environments, such as `dev` and `prod`. Each has its own keys, integrations and connections.",
  "environments.name": "Name of the environment.",
  "environments.keys": "Keys with which applications call the proxy and the JSON routes of the environment.",
  "environments.keys.id": "Name of the key, for lists and the audit trail.",
  "environments.keys.scopes": "What the key may do. Left out: the usual scopes of an application.",
  "environments.forward": "Where webhooks and events of the environment are delivered to.",
  "environments.forward.url": "URL of your application that receives deliveries.",
  "environments.forward.secondary": "Second URL that receives a copy of each delivery.",
  "environments.allowed_origins":
    "Origins of your pages, such as https://app.example.com, that may embed the connect page.",
  integrations: "Integrations: a provider together with your own app at that provider.",
  "integrations.environment": "Name of the integration's environment.",
  "integrations.key": "Key of the integration, which requests name. It cannot be changed later.",
  "integrations.provider": "Name of the provider, of the catalog or of `providers`. It cannot be changed later.",
  "integrations.display_name": "Name for people.",
  "integrations.oauth": "Your OAuth app at the provider.",
  "integrations.oauth.client_id": "Client ID of the OAuth app.",
  "integrations.oauth.scopes": "Scopes to request. Left out: the provider's default scopes.",
  "integrations.oauth.publishing":
    "State of the app at the provider. Some providers shorten tokens of an app in testing.",
  "integrations.callback":
    "Form of the redirect URI: `shared` is /oauth/callback, `bound` has a last segment of the integration's own.",
  "integrations.hosts": "Further origins that credentials may be sent to, for requests with Base-Url-Override.",
  "integrations.hosts.prefix": "Ignored, with a warning.",
  "integrations.hosts.origin": "Origin, such as https://files.example.com.",
  "integrations.channels": "Notification channels (watch channels) of the connections.",
  "integrations.channels.automatic": "Create and renew a channel for each connection. Default: false.",
  "integrations.reflection":
    "What to do when the provider echoes the credential: `off`, `mask` it, or `refuse` the response. Default: off.",
  "integrations.forward": "Deliver webhooks to the application. false: only syncs receive them. Default: true.",
  "integrations.connection_defaults": "Default values of connection_config, by name.",
  "integrations.use_record": "Log each use of a connection, with the host or the path. Default: off.",
  "integrations.keep_set_cookie": "Forward the provider's Set-Cookie headers. Default: false.",
  "integrations.credentials_in_scripts": "Let scripts read the credentials of their connections. Default: false.",
  "integrations.keep_grants": "Do not revoke grants at the provider when connections are deleted. Default: false.",
  limits: "Limits of sizes and connections. They are read at start.",
  "limits.json_body_bytes": "Maximum size of a JSON request body. Default: 524288.",
  "limits.rpc_message_bytes": "Maximum size of an RPC message. Default: 4194304.",
  "limits.head_bytes": "Maximum size of the head of a request. Default: 16384.",
  "limits.head_lines": "Maximum number of header lines of a request. Default: 200.",
  "limits.path_bytes": "Maximum length of a path and query. Default: 8192.",
  "limits.webhook_body_bytes": "Maximum size of a webhook. Default: 5242880.",
  "limits.connections.data": "Maximum for the data listener. Default: 10000.",
  "limits.connections.public": "Maximum for the public listener. Default: 2000.",
  "limits.connections.control": "Maximum for the control listener. Default: 1000.",
  "limits.connections.ops": "Maximum for the ops listener. Default: 256.",
  "limits.connections.ui": "Maximum for the dashboard's own listener. Default: 256.",
  "limits.connections.forward_proxy": "Maximum for the forward proxy. Default: 10000.",
  scripts: "Limits of syncs and actions.",
  "scripts.log_line_bytes": "Maximum length of a log line of a run, in bytes.",
  webhooks: "Deliveries to your application.",
  "integrations.mcp": "URL of an MCP server, in place of a provider. It is read after the start.",
  proxy: "Limits of requests to providers.",
  "proxy.requests_per_host": "Maximum number of pending requests to one host. Default: 1024.",
  "proxy.waiting_per_host": "Maximum number of requests that wait for one host. Default: 1024.",
  "proxy.overload.delay": "Delay of the event loop that counts as overload. Default: 500ms.",
  "proxy.overload.for": "How long the delay must last. Default: 2s.",
  "proxy.rates.integrations": "Rates of single integrations.",
  "proxy.rates.integrations.environment": "Name of the integration's environment.",
  "proxy.rates.integrations.key": "Key of the integration.",
  retention: "How long latchkey keeps logs, deliveries and records.",
  "providers.name": "Name of the provider.",
  aliases: "Addresses for single connections, for clients that can send no further headers.",
  forward_proxy: "Settings of the forward proxy. They are read at start.",
  "aliases.name": "Name of the alias: <name>.localhost on the data listener.",
  "aliases.environment": "Name of the environment.",
  "aliases.integration": "Key of the integration.",
  "aliases.connection": "ID of the connection.",
  "aliases.listen": "Address of a listener of its own: host:port, :port or unix:/path.",
  tls: "TLS of the listeners. Files are read again when they change.",
  dashboard: "The dashboard, for people with a browser. Read at start.",
  "dashboard.oidc.issuer": "Issuer, such as https://login.example.com (LATCHKEY_UI_OIDC_ISSUER).",
  "dashboard.oidc.client_id": "Client ID of Latchkey at the provider (LATCHKEY_UI_OIDC_CLIENT_ID).",
  "dashboard.oidc.client_secret":
    "Client secret (LATCHKEY_UI_OIDC_CLIENT_SECRET). Left out for a public client, which has PKCE alone.",
  "dashboard.oidc.scopes": "Scopes to request. Default: openid, email and profile.",
  "dashboard.oidc.groups_claim": "Claim with the groups of a person. Default: groups.",
  "dashboard.oidc.name_claim": "Claim with the name for the audit trail. Default: email.",
  "dashboard.oidc.groups": "What people may do, by group. A person in several groups may do what any of them may.",
  "dashboard.oidc.groups.group": "Name of the group in the claim; `*` for everyone who can sign in.",
  "dashboard.oidc.groups.environments": "Environments in which the scopes hold. Default: all.",
  "dashboard.oidc.groups.scopes": "Scopes of the group; `admin` only without environments.",
  "*.env": "Environment variable with the secret.",
  "*.file": "File with the secret.",
  "*.requests": "Number of requests.",
  "*.per": "Period, such as 1s or 1m.",
  "*.burst": "Maximum number at once. Default: `requests`.",
  "*.cert": "PEM file with the certificate chain.",
  "*.key": "PEM file with the private key.",
  "*.client_ca": "PEM file of the authority of client certificates, which are then required.",
  "*.client_names": "Names of which a client certificate must have one.",
  "*.client_optional": "Accept callers without a certificate too. Default: false.",
};

/** Throws if a key has no description. */
export function configurationSchema(): Schema & { readonly properties: Readonly<Record<string, Schema>> } {
  const missing = new Set<string>();
  const described = describe(toJsonSchema(fileSchema, { errorMode: "ignore" }), [], missing);
  if (missing.size > 0)
    throw new Error(`describe these keys in src/config/file.ts or bin/file-schema.ts: ${[...missing].join(", ")}`);
  return described as ReturnType<typeof configurationSchema>;
}

function describe(schema: unknown, path: readonly string[], missing: Set<string>): unknown {
  if (Array.isArray(schema)) return schema.map((one) => describe(one, path, missing));
  if (typeof schema !== "object" || schema === null) return schema;
  return Object.fromEntries(
    Object.entries(schema).map(([key, value]) => {
      if (key !== "properties") return [key, describe(value, path, missing)];
      const properties = Object.entries(Object(value) as Readonly<Record<string, Schema>>);
      return [
        key,
        Object.fromEntries(properties.map(([name, one]) => [name, property(one, [...path, name], missing)])),
      ];
    }),
  );
}

function property(schema: Schema, path: readonly string[], missing: Set<string>): unknown {
  const text = descriptions[path.join(".")] ?? schema["description"] ?? descriptions[`*.${path.at(-1)}`];
  if (text === undefined) missing.add(path.join("."));
  return { ...Object(describe(schema, path, missing)), description: text };
}
