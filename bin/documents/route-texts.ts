import { list, object, ref, type Schema, types } from "./schemas.ts";

/** What the tables of routes in the source do not hold: words for readers, and the shape of the answer. */
export interface RouteText {
  readonly subject: (typeof subjects)[number];
  readonly summary: string;
  readonly description?: string;
  readonly status?: number;
  readonly answer: Schema;
  /** Other successful answers, by status. */
  readonly others?: Readonly<Record<string, readonly [meaning: string, answer: Schema]>>;
  /** Error codes that callers of the route meet, beside those of every route. */
  readonly errors?: readonly string[];
  /** The two headers that name a connection: required, or in place of the fields of the body. */
  readonly names?: "headers" | "optional headers";
  readonly example?: unknown;
}

/** The sections of the reference, in order. */
export const subjects = [
  "Connections",
  "Metadata",
  "Connect sessions",
  "Access sessions",
  "Approvals",
  "Integrations",
  "Providers",
  "Syncs",
  "Actions",
  "Records",
  "Scripts",
  "Proxy",
  "Webhooks",
  "Pages for browsers",
  "Information",
] as const;

const { text, integer, anyObject, textMap, flag } = types;
const data = (schema: Schema) => object({ data: schema });
const success = ref("Success");
const unknown = ["unknown_provider_config", "unknown_connection"];
const oneConnection = ["unknown_provider_config", "unknown_connection", "missing_scope"];
const dead = [...unknown, "reauthorization_required", "refresh_unavailable", "integration_misconfigured"];
const session = { end_user: { id: "user-1", email: "ada@example.com" }, allowed_integrations: ["calendar"] };
const metadata = { provider_config_key: "calendar", connection_id: "ada", metadata: { region: "eu" } };
const metadataText = { subject: "Metadata", answer: ref("Metadata"), errors: unknown, example: metadata } as const;
const merge = "Merges fields into the metadata of one or several connections";
const replace = "Replaces the metadata of one or several connections";
const sync = { subject: "Syncs", answer: success, names: "optional headers" } as const;
const syncs = { provider_config_key: "calendar", connection_id: "ada", syncs: ["events"] };
const records = {
  subject: "Records",
  summary: "Lists the records that syncs saved",
  description: "Pages by `cursor`. Keep the cursor of the last record, to read only what changes afterwards.",
  names: "headers",
  answer: object({ records: list(ref("Record")), next_cursor: { type: ["string", "null"] } }),
  errors: unknown,
} as const;
const integrationBody = {
  unique_key: "calendar",
  provider: "google-calendar",
  credentials: { type: "OAUTH2", client_id: "1234", client_secret: "…", scopes: "calendar" },
};
const scripts = { subject: "Scripts", errors: ["unknown_provider_config", "not_found"] } as const;

/** By method and path. The generator refuses a route without an entry, and an entry without a route. */
export const routeTexts: Readonly<Record<string, RouteText>> = {
  "POST /connections": {
    subject: "Connections",
    summary: "Imports a connection whose credentials you already have",
    description:
      "An existing connection gets the new credentials; fields that the body leaves out keep their values. Without `connection_id`, Latchkey makes one.",
    status: 201,
    answer: ref("Connection"),
    errors: ["unknown_provider_config", "invalid_body"],
    example: {
      provider_config_key: "calendar",
      connection_id: "ada",
      credentials: { type: "OAUTH2", access_token: "…", refresh_token: "…", expires_at: "2030-01-01T00:00:00Z" },
      tags: { team: "blue" },
    },
  },
  "GET /connections": {
    subject: "Connections",
    summary: "Lists connections, without credentials",
    description:
      "Filter by `integrationId`, `connectionId`, `search` (id or end user) and `tags[key]=value`. Page by `cursor`, or by `page`.",
    answer: object({ connections: list(ref("ConnectionItem")), next_cursor: text }, "next_cursor"),
  },
  "DELETE /end-users/:id": {
    subject: "Connections",
    summary: "Ends everything of an end user",
    description:
      "Deletes the user's connections in all integrations, with channels, syncs, records and metadata, revokes their grants, and ends connect sessions. Waits up to 20 s; if `state` is `running` then, the work goes on. A second call joins the first.",
    answer: ref("EndUserDeletion"),
  },
  "GET /end-users/:id/deletion": {
    subject: "Connections",
    summary: "Returns the report of an end user's deletion",
    answer: ref("EndUserDeletion"),
    errors: ["not_found"],
  },
  "GET /revocations": {
    subject: "Connections",
    summary: "Lists what became of the grants of deleted connections, newest first",
    description: "Revocations are kept for 30 days. Page by `cursor`: a page can be short and still have a next one.",
    answer: object({ revocations: list(ref("Revocation")), next_cursor: text }, "next_cursor"),
  },
  "GET /connections/:id": {
    subject: "Connections",
    summary: "Returns a connection with its current credentials",
    description:
      "Refreshes an expired access token first. Without the scope `credentials:read`, or with `credentials=false`, `credentials` is empty.",
    answer: ref("Connection"),
    errors: dead,
  },
  "PATCH /connections/:id": {
    subject: "Connections",
    summary: "Changes tags, end user or webhook URL of a connection",
    answer: success,
    errors: oneConnection,
    example: { tags: { team: "red" } },
  },
  "GET /connections/:id/choices": {
    subject: "Connections",
    summary: "Lists what can be chosen for a connection, such as one of several sites",
    description:
      "Asks the provider, which takes up to 10 seconds. Each choice has `name`, `title`, `needed`, `options` (`id`, `label`, `connection_config`, `chosen`) and, without a list, `problem`.",
    answer: object({ choices: list(anyObject) }),
    errors: [...oneConnection, "reauthorization_required"],
  },
  "POST /connections/:id/choices": {
    subject: "Connections",
    summary: "Stores chosen options in the `connection_config`",
    answer: ref("Connection"),
    errors: [...oneConnection, "reauthorization_required", "provider_unreachable"],
    example: { options: { site: "Acme" } },
  },
  "DELETE /connections/:id": {
    subject: "Connections",
    summary: "Deletes a connection and its credentials",
    description:
      "Revokes the grant at the provider in the background: `revocation` says for each token what becomes of it. It is absent if the credentials are no grant. `keep_grant=true` leaves the grant as it is.",
    answer: object({ success: { type: "boolean", const: true }, revocation: ref("Revocation") }, "revocation"),
    errors: oneConnection,
  },
  "PATCH /connection/metadata": { ...metadataText, summary: merge },
  "PATCH /connections/metadata": { ...metadataText, summary: merge },
  "POST /connection/metadata": { ...metadataText, summary: replace, status: 201 },
  "POST /connections/metadata": { ...metadataText, summary: replace, status: 201 },
  "POST /connect/sessions": {
    subject: "Connect sessions",
    summary: "Creates a connect session: a link with which a user connects an account",
    description: "`end_user` or `tags` is required. The session lives 30 minutes and creates one connection.",
    status: 201,
    answer: data(ref("ConnectSession")),
    errors: ["unknown_provider_config"],
    example: session,
  },
  "POST /access-sessions": {
    subject: "Access sessions",
    summary: "Creates an access session: a short-lived token for named connections",
    description:
      "`limits` has `connections`, `methods`, `paths` and `hosts`, and names one connection of each integration; `allow_several` allows more. `expires_in` is in seconds, up to a day; an hour if it is left out.",
    status: 201,
    answer: data(ref("CreatedAccessSession")),
    errors: [...unknown, "not_in_session"],
    example: {
      limits: { connections: [{ integration: "calendar", id: "ada" }], methods: ["GET"] },
      expires_in: 900,
      budget: 100,
    },
  },
  "GET /access-sessions": {
    subject: "Access sessions",
    summary: "Lists access sessions, newest first, without their tokens",
    answer: object({ sessions: list(ref("AccessSession")), next_cursor: text }),
  },
  "GET /access-sessions/current": {
    subject: "Access sessions",
    summary: "Returns the access session whose token is sent",
    answer: data(ref("AccessSession")),
    errors: ["not_found"],
  },
  "GET /access-sessions/:id": {
    subject: "Access sessions",
    summary: "Returns an access session; one that has ended, for 7 days",
    answer: data(ref("AccessSession")),
    errors: ["not_found"],
  },
  "DELETE /access-sessions/:id": {
    subject: "Access sessions",
    summary: "Ends an access session within a second, on every replica",
    answer: data(ref("AccessSession")),
    errors: ["not_found"],
  },
  "GET /approvals": {
    subject: "Approvals",
    summary: "Lists approvals of held requests, newest first, without headers and bodies",
    description: "A caller without the scope `approvals:decide` sees those of its own requests.",
    answer: object({ approvals: list(ref("Approval")), next_cursor: text }),
  },
  "GET /approvals/:id": {
    subject: "Approvals",
    summary: "Returns an approval with the headers and the body of its request",
    description: "A caller without the scope `approvals:decide` sees those of its own requests.",
    answer: data(ref("Approval")),
    errors: ["not_found"],
  },
  "POST /approvals/:id/approve": {
    subject: "Approvals",
    summary: "Approves a request, which can then be sent once",
    description:
      "`digest` is that of what the person has seen. `remember` is in seconds, at most `longest_memory`: during that time, the same caller may send requests with this connection, method, host, path and MCP tool.",
    answer: data(ref("Approval")),
    errors: ["not_found", "self_approval", "approval_mismatch", "conflict"],
    example: { digest: "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", reason: "as discussed" },
  },
  "POST /approvals/:id/deny": {
    subject: "Approvals",
    summary: "Denies a request, takes back an approval, or ends what is remembered",
    answer: data(ref("Approval")),
    errors: ["not_found", "self_approval", "conflict"],
    example: { reason: "ask Ada first" },
  },
  "POST /connect/sessions/reconnect": {
    subject: "Connect sessions",
    summary: "Creates a connect session that authorizes an existing connection again",
    status: 201,
    answer: data(ref("ConnectSession")),
    errors: unknown,
    example: { integration_id: "calendar", connection_id: "ada" },
  },
  "GET /integrations": {
    subject: "Integrations",
    summary: "Lists the integrations of the environment",
    answer: data(list(ref("Integration"))),
  },
  "POST /integrations": {
    subject: "Integrations",
    summary: "Creates an integration",
    description:
      "`mcp_url` with the URL of an MCP server takes the place of `provider`: Latchkey then reads its metadata and registers a client.",
    answer: data(ref("Integration")),
    errors: ["unknown_provider", "already_exists", "discovery_failed", "client_required"],
    example: integrationBody,
  },
  "POST /integrations/quickstart": {
    subject: "Integrations",
    summary: "Creates an integration of a provider that needs no app of yours",
    answer: data(ref("Integration")),
    errors: ["unknown_provider", "already_exists"],
    example: { unique_key: "stripe", provider: "stripe" },
  },
  "GET /integrations/:key": {
    subject: "Integrations",
    summary: "Returns an integration",
    description: "`include=webhook` adds the webhook URL; `include=credentials` adds the app, with `credentials:read`.",
    answer: data(ref("Integration")),
    errors: ["unknown_provider_config"],
  },
  "PATCH /integrations/:key": {
    subject: "Integrations",
    summary: "Changes an integration",
    answer: data(ref("Integration")),
    errors: ["unknown_provider_config", "read_only"],
    example: { display_name: "Calendar" },
  },
  "DELETE /integrations/:key": {
    subject: "Integrations",
    summary: "Deletes an integration without connections",
    answer: success,
    errors: ["unknown_provider_config", "in_use", "read_only"],
  },
  "POST /integrations/:key/discover": {
    subject: "Integrations",
    summary: "Reads the metadata of an MCP server again",
    description: "`issuer_changed` is true if end users must authorize again.",
    answer: object({ data: ref("Integration"), issuer_changed: { type: "boolean" } }),
    errors: ["unknown_provider_config", "discovery_failed", "client_required"],
  },
  "GET /providers": {
    subject: "Providers",
    summary: "Lists the providers",
    answer: data(list(ref("Provider"))),
  },
  "GET /providers/:name": {
    subject: "Providers",
    summary: "Returns a provider",
    answer: data(ref("Provider")),
    errors: ["unknown_provider"],
  },
  "GET /providers/:name/templates": {
    subject: "Providers",
    summary: "Lists the templates of a provider: always empty",
    answer: data(list({})),
    errors: ["unknown_provider"],
  },
  "POST /sync/trigger": {
    ...sync,
    summary: "Runs syncs now",
    description: "Without `syncs`, all syncs of the integration run.",
    errors: [...unknown, "unknown_sync"],
    example: syncs,
  },
  "POST /sync/start": {
    ...sync,
    summary: "Starts the schedule of syncs",
    errors: [...unknown, "unknown_sync"],
    example: syncs,
  },
  "POST /sync/pause": {
    ...sync,
    summary: "Pauses the schedule of syncs",
    errors: [...unknown, "unknown_sync"],
    example: syncs,
  },
  "GET /sync/status": {
    subject: "Syncs",
    summary: "Returns the state of syncs",
    description: "`syncs=*` or no `syncs`: all syncs of the integration.",
    answer: object({ syncs: list(ref("Sync")) }),
    errors: [...unknown, "unknown_sync"],
  },
  "PUT /sync/update-connection-frequency": {
    subject: "Syncs",
    summary: "Changes how often a sync of a connection runs",
    description: "`frequency` is text such as `every 5 minutes`; null or absent: that of the script.",
    answer: object({ frequency: text }),
    errors: [...unknown, "unknown_sync"],
    example: { provider_config_key: "calendar", connection_id: "ada", sync_name: "events", frequency: "every hour" },
  },
  "POST /sync/:name/variant/:variant": {
    subject: "Syncs",
    summary: "Adds a variant of a sync for a connection",
    answer: object({ id: text, name: text, variant: text }),
    errors: [...unknown, "unknown_sync", "already_exists"],
    example: { provider_config_key: "calendar", connection_id: "ada" },
  },
  "DELETE /sync/:name/variant/:variant": {
    subject: "Syncs",
    summary: "Removes a variant of a sync and its records",
    answer: success,
    errors: [...unknown, "unknown_sync"],
    example: { provider_config_key: "calendar", connection_id: "ada" },
  },
  "POST /action/trigger": {
    subject: "Actions",
    summary: "Runs an action and returns its output",
    description: "With the header `X-Async: true`, answers at once; read the output from `statusUrl`.",
    names: "headers",
    answer: { description: "The output of the action: any JSON." },
    others: { "202": ["The action runs in the background.", object({ id: text, statusUrl: text })] },
    errors: [...unknown, "unknown_action", "script_failed"],
    example: { action_name: "create-event", input: { title: "Lunch" } },
  },
  "GET /action/:id": {
    subject: "Actions",
    summary: "Returns the output of an action that runs in the background",
    description: "`not_found` until the action has ended.",
    answer: { description: "The output of the action: any JSON." },
    errors: ["not_found", "script_failed"],
  },
  "GET /records": records,
  "GET /records/": { ...records, description: "The same as `GET /records`: the path that the SDK sends." },
  "PATCH /records/prune": {
    subject: "Records",
    summary: "Deletes the data of records up to a cursor, and keeps their ids",
    names: "headers",
    answer: object({ count: integer, has_more: flag }),
    errors: unknown,
    example: { model: "Event", until_cursor: "…" },
  },
  "GET /environment-variables": {
    subject: "Scripts",
    summary: "Lists the variables of the environment's scripts",
    answer: list(object({ name: text, value: text })),
  },
  "GET /scripts/config": {
    subject: "Scripts",
    summary: "Describes all scripts",
    description: "`format=openai` returns the actions as functions in the format of OpenAI.",
    answer: { description: "A list by integration; with `format=openai`, an object with `data`." },
  },
  "GET /integrations/:key/functions": {
    ...scripts,
    summary: "Lists the scripts of an integration",
    answer: object({
      data: list(ref("Function")),
      pagination: object({ total: integer, page: integer, limit: integer }),
    }),
  },
  "GET /integrations/:key/functions/:name": {
    ...scripts,
    summary: "Returns a script of an integration",
    answer: data(ref("Function")),
    errors: ["unknown_provider_config", "not_found", "ambiguous_function"],
  },
  "GET /integrations/:key/functions/:name/code": {
    ...scripts,
    summary: "Returns the code of a script",
    answer: object({ type: text, code: text }),
  },
  "DELETE /integrations/:key/functions/:name": {
    ...scripts,
    summary: "Always fails: scripts are files of a folder",
    answer: {},
    errors: ["function_managed_by_deploy"],
  },
};

const html = "text/html";

/** A route that no table of JSON routes holds. */
export interface OtherRoute extends RouteText {
  readonly method: string;
  readonly path: string;
  readonly security: "key" | "session" | "none";
  readonly type?: string;
  readonly query?: Readonly<Record<string, string>>;
  readonly body?: Schema;
  readonly bodyType?: string;
}

const page = { subject: "Pages for browsers", security: "none", type: html, answer: text } as const;
const entered = {
  subject: "Connect sessions",
  method: "POST",
  security: "session",
  answer: ref("Connected"),
  errors: ["unknown_session", "unknown_provider_config", "connection_test_failed"],
  query: { "params[name]": "A connection detail, such as a subdomain. Repeatable." },
} as const;
const proxied = {
  subject: "Proxy",
  path: "/proxy/{path}",
  security: "key",
  names: "headers",
  type: "*/*",
  answer: {},
  summary: "Sends the request to the provider, with the connection's credentials",
  description:
    "Path, query and body are sent as they are; so are status and body of the answer. Optional headers: `Retries`, `Retry-On`, `Base-Url-Override`, `Latchkey-Token`. An answer with the header `latchkey-error` is Latchkey's; any other is the provider's.",
  errors: [...dead, "host_not_allowed", "too_many_requests", "provider_unreachable", "provider_timeout"],
} as const;

const mcp = {
  ...proxied,
  path: "/mcp/{integration}",
  summary: "Sends the request to the integration's MCP server, with the connection's credentials",
  description:
    "Streamable HTTP of MCP 2025-11-25 and 2026-07-28. `Connection-Id` names the connection; it may be left out if the integration has only one. The answer of the server is sent as it comes.",
  errors: [...dead, "header_mismatch", "invalid_message", "provider_unreachable", "provider_timeout"],
} as const;

/** Routes with rules of their own, described by hand. A test holds the list to the routes that answer. */
export const otherRoutes: readonly OtherRoute[] = [
  ...["GET", "POST", "PUT", "PATCH", "DELETE"].map((method) => ({ ...proxied, method })),
  ...["GET", "POST", "DELETE"].map((method) => ({ ...mcp, method })),
  {
    subject: "Approvals",
    method: "POST",
    path: "/approval-answers/:environment/:id",
    security: "none",
    summary: "Takes an answer that the application signs with the environment's signing secret",
    description:
      "Signed as deliveries are (Standard Webhooks); `webhook-id` is the ID of the approval. The body has `decision` (`approve` or `deny`), `digest`, `decided_by`, and may have `reason` and `remember`.",
    answer: data(ref("Approval")),
    body: object(
      { decision: text, digest: text, decided_by: text, reason: text, remember: integer },
      "reason",
      "remember",
    ),
    errors: ["unproven_webhook", "invalid_body", "not_found", "self_approval", "approval_mismatch", "conflict"],
  },
  {
    subject: "Proxy",
    method: "GET",
    path: "/forward-proxy",
    security: "key",
    summary: "Returns the address of the forward proxy, and what programs must trust",
    description:
      "The certificates are that of the authority that signs now, then that of the one that will sign next. `latchkey edge` answers for its own forward proxy.",
    answer: data(ref("ForwardProxy")),
    errors: ["not_found"],
  },
  {
    subject: "Webhooks",
    method: "GET",
    path: "/webhook/:environment/:key",
    security: "none",
    summary: "Answers a provider that checks the webhook URL",
    description: "Some providers check the URL by GET before they send webhooks. `HEAD` is answered with 200.",
    answer: { description: "What the provider's check asks for." },
    type: "*/*",
    errors: ["not_found", "method_not_allowed", "unproven_webhook"],
  },
  {
    subject: "Webhooks",
    method: "POST",
    path: "/webhook/:environment/:key",
    security: "none",
    summary: "Receives a webhook of a provider",
    description:
      "Register the URL that `GET /integrations/:key?include=webhook` shows. `:environment` is the environment's random id. Latchkey stores the webhook before it answers. Some providers get the echo of a challenge.",
    answer: { description: '`{"status":"success"}`, or what the provider\'s handshake asks for.' },
    type: "*/*",
    body: {},
    bodyType: "*/*",
    errors: ["not_found", "unproven_webhook", "payload_too_large", "store_unavailable"],
  },
  {
    subject: "Connect sessions",
    method: "GET",
    path: "/connect/session",
    security: "session",
    summary: "Returns the connect session of the token",
    answer: data(ref("SessionView")),
    errors: ["unknown_session"],
  },
  {
    subject: "Connect sessions",
    method: "DELETE",
    path: "/connect/session",
    security: "session",
    summary: "Ends the connect session of the token",
    status: 204,
    answer: {},
    errors: ["unknown_session"],
  },
  {
    ...entered,
    path: "/api-auth/api-key/:key",
    summary: "Connects with an API key that the user entered",
    body: object({ apiKey: text }),
  },
  {
    ...entered,
    path: "/api-auth/basic/:key",
    summary: "Connects with a user name and password that the user entered",
    body: object({ username: text, password: text }),
  },
  {
    ...entered,
    path: "/oauth2/auth/:key",
    summary: "Connects with client credentials that the user entered",
    body: object({ client_id: text, client_secret: text }),
  },
  { ...entered, path: "/auth/unauthenticated/:key", summary: "Connects to a provider that needs no credentials" },
  {
    ...page,
    method: "GET",
    path: "/connect/",
    summary: "Shows the connect page of a session",
    query: { session_token: "Token of the session." },
  },
  {
    ...page,
    method: "POST",
    path: "/connect/",
    summary: "Takes a form of the connect page",
    body: textMap,
    bodyType: "application/x-www-form-urlencoded",
  },
  { ...page, method: "GET", path: "/connect", status: 303, summary: "Redirects to `/connect/`" },
  {
    ...page,
    method: "GET",
    path: "/oauth/connect/:key",
    status: 303,
    summary: "Redirects the browser to the provider's authorization page",
    query: {
      connect_session_token: "Token of the session.",
      "params[name]": "A connection detail. Repeatable.",
      user_scope: "Scopes to request, with commas between.",
      "authorization_params[name]": "A parameter of the authorization request. Repeatable.",
    },
  },
  {
    ...page,
    method: "POST",
    path: "/oauth/connect/:key/confirm",
    status: 303,
    summary: "Continues after the user agreed on our page",
    body: textMap,
    bodyType: "application/x-www-form-urlencoded",
  },
  {
    ...page,
    method: "POST",
    path: "/oauth/choose",
    summary: "Stores what the user of a new connection chose on our page",
    body: textMap,
    bodyType: "application/x-www-form-urlencoded",
  },
  {
    ...page,
    method: "GET",
    path: "/oauth/callback",
    summary: "The redirect URI: completes an authorization",
    query: { state: "State of the authorization.", code: "Code of the provider.", error: "Error of the provider." },
  },
  {
    ...page,
    method: "GET",
    path: "/oauth/callback/:context",
    summary: "The redirect URI of one integration (`callback: bound`)",
    query: { state: "State of the authorization.", code: "Code of the provider.", error: "Error of the provider." },
  },
  {
    subject: "Integrations",
    method: "GET",
    path: "/oauth/clients/:provider",
    security: "none",
    summary: "The metadata document of a client, for authorization servers of MCP servers",
    answer: object({ client_id: text, client_name: text, redirect_uris: list(text) }),
    errors: ["not_found"],
  },
  {
    subject: "Information",
    method: "GET",
    path: "/",
    security: "none",
    summary: "Returns the name and version of Latchkey; a page for browsers",
    answer: object({ name: text, version: text, docs: text, health: text, openapi: text }),
  },
  {
    subject: "Information",
    method: "GET",
    path: "/health",
    security: "none",
    summary: "Says that the listener answers",
    answer: object({ result: { type: "string", const: "ok" } }),
  },
  {
    subject: "Information",
    method: "GET",
    path: "/openapi.json",
    security: "none",
    summary: "Returns this description",
    answer: anyObject,
  },
  {
    subject: "Information",
    method: "GET",
    path: "/docs/errors",
    security: "none",
    type: html,
    summary: "Explains the error codes",
    answer: text,
  },
];
