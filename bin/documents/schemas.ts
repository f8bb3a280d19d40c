/** Schemas of answers, in the words of JSON Schema. A test validates real answers against them. */
export type Schema = Readonly<Record<string, unknown>>;

export const ref = (name: string): Schema => ({ $ref: `#/components/schemas/${name}` });

const text: Schema = { type: "string" };
const time: Schema = { type: "string", format: "date-time" };
const textOrNull: Schema = { type: ["string", "null"] };
const timeOrNull: Schema = { type: ["string", "null"], format: "date-time" };
const texts: Schema = { type: "array", items: text };
const anyObject: Schema = { type: "object", additionalProperties: true };
const textMap: Schema = { type: "object", additionalProperties: text };
const flag: Schema = { type: "boolean" };
const integer: Schema = { type: "integer" };

/** An object whose listed fields are all there, unless named in `optional`. More fields may be added later. */
export function object(properties: Readonly<Record<string, Schema>>, ...optional: readonly string[]): Schema {
  const required = Object.keys(properties).filter((name) => !optional.includes(name));
  return { type: "object", properties, ...(required.length > 0 && { required }) };
}

export const list = (items: Schema): Schema => ({ type: "array", items });
const described = (description: string, schema: Schema): Schema => ({ ...schema, description });

const connection = {
  id: described("Number of the connection. Use `connection_id` to name it.", integer),
  connection_id: text,
  provider_config_key: described("Key of the integration.", text),
  provider: text,
  metadata: described("Free-form data of your application.", anyObject),
  tags: textMap,
  errors: described(
    "What is wrong with the connection now. Empty: nothing.",
    list(object({ type: { type: "string", enum: ["auth", "sync"] }, log_id: text })),
  ),
  end_user: { oneOf: [{ type: "null" }, ref("EndUser")], description: "Deprecated: use tags, which mirror it." },
  missing_scopes: described("Scopes that were requested and not granted.", texts),
};

const accessSession = {
  id: text,
  state: { type: "string", enum: ["active", "expired", "ended"] },
  limits: described("What it may use: `connections`, `methods`, `paths`, `hosts`.", anyObject),
  scopes: described("`proxy`, `syncs`, `connections:read`.", texts),
  audience: { oneOf: [{ type: "null" }, anyObject], description: "From where it may be used; null: from everywhere." },
  budget: { type: ["integer", "null"], description: "Requests that it may send in all." },
  budget_left: { type: ["integer", "null"], description: "Requests that no replica has taken yet." },
  label: text,
  created_by: described("ID of the key that created it.", text),
  created_at: time,
  expires_at: time,
  ended_at: timeOrNull,
  ended_by: textOrNull,
};

const approval = {
  id: text,
  state: { type: "string", enum: ["waiting", "approved", "denied", "expired", "used"] },
  policies: described("Policies that hold the request.", list(object({ id: text, description: text }))),
  requester: described(
    "Who sends the request.",
    object({ key: textOrNull, access_session: textOrNull, identity: textOrNull, script: textOrNull }),
  ),
  integration: text,
  connection_id: text,
  method: text,
  url: text,
  tool: described("Name of the tool that is called at an MCP server.", textOrNull),
  digest: described("SHA-256, in hex, of exactly what will be sent.", text),
  content: described(
    "Headers and body, up to 64 KiB of it; absent in lists. A body that is not UTF-8 is in `body_base64`.",
    anyObject,
  ),
  created_at: time,
  expires_at: time,
  decided_at: timeOrNull,
  decided_by: textOrNull,
  reason: textOrNull,
  used_at: timeOrNull,
  longest_memory: described("Longest time for which an answer may be remembered, in seconds.", integer),
  remembered_until: timeOrNull,
};

export const schemas: Readonly<Record<string, Schema>> = {
  Error: object({
    error: object(
      {
        code: described("One of the codes in docs/errors.md, or the code of a script's error.", text),
        message: text,
        hint: described("What you probably meant.", text),
        doc_url: described("Explanation of the code.", text),
        errors: described("Each mistake in a body or query.", list(object({ code: text, message: text, path: texts }))),
        payload: described("Data of a script's error.", {}),
        additional_properties: anyObject,
      },
      ...["hint", "errors", "payload", "additional_properties"],
    ),
  }),
  Success: object({ success: { type: "boolean", const: true } }),
  Revocation: object({
    id: text,
    connection_id: text,
    provider_config_key: text,
    provider: text,
    end_user_id: textOrNull,
    further_token: textOrNull,
    state: { type: "string", enum: ["pending", "done", "failed"] },
    tokens: described("`pending`, `revoked`, `not_supported`, `failed` or `kept`, by the token's name.", textMap),
    causes: described("Causes of results, by the token's name.", textMap),
    attempts: integer,
    last_error: textOrNull,
    created_at: time,
    next_attempt_at: timeOrNull,
    ended_at: timeOrNull,
  }),
  EndUserDeletion: object({
    end_user_id: text,
    state: { type: "string", enum: ["running", "done"] },
    connections: integer,
    connect_sessions: integer,
    device_authorizations: integer,
    revocations: list(ref("Revocation")),
    created_at: time,
    ended_at: timeOrNull,
  }),
  AccessSession: object(accessSession),
  Approval: object(approval, "content"),
  ForwardProxy: object({
    address: described("`http://host:port`, for `HTTPS_PROXY`.", text),
    certificates: list(
      object({
        id: text,
        pem: text,
        sha256: text,
        not_before: time,
        not_after: time,
        signs_from: timeOrNull,
        signs_until: timeOrNull,
      }),
    ),
  }),
  CreatedAccessSession: object({ token: text, ...accessSession }),
  EndUser: object({
    id: text,
    email: textOrNull,
    display_name: textOrNull,
    tags: textMap,
    organization: { oneOf: [{ type: "null" }, object({ id: text, display_name: textOrNull })] },
  }),
  ConnectionItem: object({ ...connection, created: time }),
  Connection: object({
    ...connection,
    granted_scopes: texts,
    connection_config: described("Values that the provider needs, such as a subdomain.", anyObject),
    webhook_url_override: textOrNull,
    created_at: time,
    updated_at: time,
    last_fetched_at: time,
    credentials: ref("Credentials"),
  }),
  Credentials: {
    type: "object",
    description:
      "By `type`: OAUTH2 (access_token, refresh_token, expires_at, raw), OAUTH2_CC (token, client_id, client_secret), OAUTH1 (oauth_token, oauth_token_secret), API_KEY (apiKey), BASIC (username, password), APP, JWT, TBA, TWO_STEP, SIGNATURE, AWS_SIGV4, NONE. Empty without the scope `credentials:read`.",
    properties: { type: text },
    additionalProperties: true,
  },
  Metadata: object({
    connection_id: { oneOf: [text, texts] },
    provider_config_key: text,
    metadata: anyObject,
  }),
  Integration: object(
    {
      unique_key: text,
      provider: text,
      display_name: text,
      logo: text,
      forward_webhooks: flag,
      created_at: time,
      updated_at: time,
      webhook_url: described("Register it at the provider. With `include=webhook`.", text),
      callback_url: described("The redirect URI to register at the provider.", text),
      credentials: { oneOf: [{ type: "null" }, anyObject], description: "The app. With `include=credentials`." },
    },
    ...["webhook_url", "callback_url", "credentials"],
  ),
  Provider: {
    ...object({
      name: text,
      display_name: text,
      logo_url: text,
      auth_mode: text,
      categories: texts,
      docs: text,
      connection_config: anyObject,
    }),
    additionalProperties: true,
  },
  ConnectSession: object({
    token: described("Give it to the browser. It may create one connection.", text),
    connect_link: described("Page where the user connects.", text),
    expires_at: time,
  }),
  SessionView: object(
    {
      endUser: { oneOf: [{ type: "null" }, ref("EndUser")] },
      tags: textMap,
      allowed_integrations: texts,
      integrations_config_defaults: anyObject,
      overrides: anyObject,
      isReconnecting: flag,
      connectUISettings: anyObject,
      webhook_url_override: text,
    },
    ...["allowed_integrations", "overrides", "webhook_url_override"],
  ),
  Connected: object({ providerConfigKey: text, connectionId: text }),
  Sync: object({
    id: text,
    connection_id: text,
    name: text,
    variant: text,
    type: { type: "string", enum: ["FULL", "INCREMENTAL", "WEBHOOK"] },
    status: { type: "string", enum: ["RUNNING", "PAUSED", "ERROR", "SUCCESS", "STOPPED"] },
    frequency: text,
    finishedAt: timeOrNull,
    nextScheduledSyncAt: timeOrNull,
    latestResult: described("Changed records of the last run, by model.", anyObject),
    recordCount: described("Records, by model.", anyObject),
    checkpoint: {},
  }),
  Record: {
    type: "object",
    description: "The record as the script saved it, with its metadata.",
    properties: {
      _nango_metadata: object({
        first_seen_at: time,
        last_modified_at: time,
        last_action: { type: "string", enum: ["ADDED", "UPDATED", "DELETED"] },
        deleted_at: timeOrNull,
        pruned_at: timeOrNull,
        cursor: text,
      }),
    },
    required: ["_nango_metadata"],
    additionalProperties: true,
  },
  Function: {
    ...object({
      name: text,
      type: { type: "string", enum: ["sync", "action", "on-event"] },
      description: text,
      scopes: texts,
      id: integer,
      enabled: flag,
      last_deployed: time,
      source: text,
    }),
    additionalProperties: true,
  },
};

export const types = { text, time, texts, integer, flag, anyObject, textMap };
