import * as v from "valibot";
import { suggestion } from "../base/similar.ts";
import { durationForm } from "../core/duration.ts";
import { policyList } from "../core/policies/policy-file.ts";
import { scopesByName } from "../core/scopes.ts";
import { accessLimits } from "./access/access-limits.ts";
import { sessionTimes } from "./access/session-times.ts";
import { edgesSchema } from "./edges/edges-schema.ts";
import { egressSchema } from "./egress/egress-schema.ts";
import { forwardProxySchema } from "./forward-proxy/schema.ts";
import { identitiesSchema } from "./identities/identities-schema.ts";
import { mcpSchema } from "./mcp/mcp-listing.ts";
import { tls } from "./schema/tls-schema.ts";

/**
 * The schema of the configuration file. Unknown keys are refused by name. The JSON Schema in `file.schema.json` is
 * generated from it.
 */
const secret = v.pipe(
  v.union(
    [
      v.strictObject({ env: v.pipe(v.string(), v.nonEmpty()) }),
      v.strictObject({ file: v.pipe(v.string(), v.nonEmpty()) }),
    ],
    "must be {env: NAME} or {file: path}: do not write the secret itself into this file",
  ),
  v.description("A reference to a secret: {env: NAME} or {file: path}."),
);

const signingSecrets = v.pipe(
  v.union(
    [secret, v.pipe(v.array(secret), v.minLength(1), v.maxLength(3))],
    "must be {env: NAME} or {file: path}, or a list of up to three: do not write the secret itself into this file",
  ),
  v.description(
    "Secret that signs deliveries: whsec_ and base64 of 24 to 64 bytes. In a list, all sign; newest first.",
  ),
);

const name = v.pipe(
  v.string(),
  v.regex(/^[a-z0-9]([a-z0-9-]{0,62}[a-z0-9])?$/, "must be lower-case letters, digits and dashes"),
);
const scope = v.picklist([...scopesByName.keys()] as [string, ...string[]], ({ input }) => {
  const near = typeof input === "string" ? suggestion(input, scopesByName.keys()) : "";
  return `is not a scope${near}`;
});
const origin = v.pipe(v.string(), v.regex(/^https?:\/\/[^/]+$/, "must be an origin such as https://app.example.com"));
const url = v.pipe(v.string(), v.url("must be a URL"));
const syncNames = v.pipe(
  v.array(v.pipe(v.string(), v.minLength(1), v.maxLength(255))),
  v.maxLength(20),
  v.check((names) => new Set(names).size === names.length, "must not name a sync twice"),
  v.description("Syncs to run when a channel lost notifications, fell silent or expired unnoticed."),
);
const bytes = v.pipe(v.number(), v.integer(), v.minValue(1_024), v.maxValue(1_073_741_824));
const among = (least: number, most: number) => v.pipe(v.number(), v.integer(), v.minValue(least), v.maxValue(most));
const milliseconds = v.pipe(v.number(), v.integer(), v.minValue(100), v.maxValue(86_400_000));
const count = v.pipe(v.number(), v.integer(), v.minValue(0), v.maxValue(1_000_000));

const duration = v.pipe(v.string(), v.regex(durationForm, "must be a duration such as 500ms, 1s, 15m, 24h or 7d"));
const rate = v.pipe(
  v.strictObject({
    requests: v.pipe(v.number(), v.integer(), v.minValue(1), v.maxValue(1_000_000_000)),
    per: v.pipe(duration, v.regex(/[1-9]/, "must be longer than 0")),
    burst: v.optional(v.pipe(v.number(), v.integer(), v.minValue(1), v.maxValue(1_000_000_000))),
  }),
  v.description("Rate limit: `requests` per `per`. `burst` is the maximum number at once (default: `requests`)."),
);

const oidc = v.pipe(
  v.strictObject({
    issuer: v.optional(url),
    client_id: v.optional(v.pipe(v.string(), v.nonEmpty())),
    client_secret: v.optional(secret),
    scopes: v.optional(v.pipe(v.array(v.string()), v.includes("openid", "must contain openid"))),
    groups_claim: v.optional(v.pipe(v.string(), v.nonEmpty())),
    name_claim: v.optional(v.pipe(v.string(), v.nonEmpty())),
    groups: v.optional(
      v.array(
        v.strictObject({
          group: v.pipe(v.string(), v.nonEmpty()),
          environments: v.optional(v.pipe(v.array(name), v.minLength(1))),
          scopes: v.pipe(v.array(scope), v.minLength(1)),
        }),
      ),
    ),
  }),
  v.description("OpenID Connect provider through which people sign in to the dashboard."),
);

const branding = v.pipe(
  v.strictObject({
    name: v.optional(v.pipe(v.string(), v.description("Name of your application, as your users know it."))),
    logo: v.optional(v.pipe(v.string(), v.description("data: URI with base64 of a PNG, JPEG, WebP or SVG image."))),
    accent_color: v.optional(v.pipe(v.string(), v.description("Color of buttons and links, such as #1f4fbf."))),
    support_url: v.optional(v.pipe(v.string(), v.description("Where end users get help: an https or mailto URL."))),
  }),
  v.description("Look of the connect pages: who asks for access."),
);

export const fileSchema = v.strictObject({
  environments: v.optional(
    v.array(
      v.strictObject({
        name,
        keys: v.optional(
          v.array(
            v.strictObject({
              id: v.pipe(v.string(), v.regex(/^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$/, "must be letters, digits and _ . -")),
              key: secret,
              scopes: v.optional(v.array(scope)),
              limits: v.optional(accessLimits),
            }),
          ),
        ),
        forward: v.optional(
          v.strictObject({ url: v.optional(url), secondary: v.optional(url), secret: v.optional(signingSecrets) }),
        ),
        allowed_origins: v.optional(v.array(origin)),
        branding: v.optional(branding),
        variables: v.optional(
          v.pipe(
            v.record(
              v.pipe(v.string(), v.regex(/^[A-Za-z_][A-Za-z0-9_]{0,127}$/, "must be letters, digits and _")),
              v.union([v.string(), secret]),
            ),
            v.description("Variables for the environment's scripts: text, or a reference to a secret."),
          ),
        ),
      }),
    ),
  ),
  integrations: v.optional(
    v.array(
      v.strictObject({
        environment: name,
        key: v.pipe(
          v.string(),
          v.regex(/^[A-Za-z0-9][A-Za-z0-9_.~:@-]{0,254}$/, "must be letters, digits and _ . ~ : @ -"),
        ),
        provider: v.optional(v.string()),
        mcp: v.optional(url),
        display_name: v.optional(v.string()),
        oauth: v.optional(
          v.strictObject({
            client_id: v.optional(v.string()),
            client_secret: v.optional(secret),
            private_key: v.optional(secret),
            scopes: v.optional(v.array(v.string())),
            further_scopes: v.optional(
              v.pipe(
                v.record(v.string(), v.array(v.string())),
                v.description("Scopes of the provider's further_tokens, by their names."),
              ),
            ),
            publishing: v.optional(v.picklist(["testing", "production"])),
          }),
        ),
        webhook_secret: v.optional(secret),
        client_certificate: v.optional(secret),
        client_private_key: v.optional(secret),
        callback: v.optional(v.picklist(["shared", "bound"])),
        hosts: v.optional(v.array(v.strictObject({ prefix: v.optional(v.string()), origin }))),
        channels: v.optional(
          v.strictObject({ automatic: v.optional(v.boolean()), catch_up_syncs: v.optional(syncNames) }),
        ),
        reflection: v.optional(v.picklist(["off", "mask", "refuse"])),
        forward: v.optional(v.boolean()),
        connection_defaults: v.optional(v.record(v.string(), v.string())),
        settings: v.optional(
          v.pipe(
            v.record(v.string(), v.union([v.string(), secret])),
            v.description("Values of the provider's integration_settings: text, or a reference to a secret."),
          ),
        ),
        use_record: v.optional(v.picklist(["off", "host", "path"])),
        keep_set_cookie: v.optional(v.boolean()),
        credentials_in_scripts: v.optional(v.boolean()),
        keep_grants: v.optional(v.boolean()),
      }),
    ),
  ),
  providers: v.optional(
    v.pipe(v.array(v.looseObject({ name })), v.description("Custom providers, in the schema of latchkey.v1.Provider.")),
  ),
  mcp: v.optional(mcpSchema),
  policies: v.optional(v.pipe(policyList, v.description("CEL conditions that requests are judged by."))),
  limits: v.optional(
    v.strictObject({
      json_body_bytes: v.optional(bytes),
      rpc_message_bytes: v.optional(bytes),
      head_bytes: v.optional(bytes),
      head_lines: v.optional(v.pipe(v.number(), v.integer(), v.minValue(10), v.maxValue(2_000))),
      path_bytes: v.optional(bytes),
      webhook_body_bytes: v.optional(bytes),
      connections: v.optional(
        v.pipe(
          v.strictObject({
            data: v.optional(among(1, 1_000_000)),
            public: v.optional(among(1, 1_000_000)),
            control: v.optional(among(1, 1_000_000)),
            ops: v.optional(among(1, 1_000_000)),
            ui: v.optional(among(1, 1_000_000)),
            forward_proxy: v.optional(among(1, 1_000_000)),
          }),
          v.description("Maximum number of open connections of a listener. Further ones are refused."),
        ),
      ),
    }),
  ),
  scripts: v.optional(
    v.strictObject({
      threads: v.optional(
        v.pipe(among(1, 64), v.description("Number of worker threads for scripts. The proxy has its own thread.")),
      ),
      runs: v.optional(
        v.pipe(among(1, 1_000), v.description("Maximum number of scheduled runs at once in each replica.")),
      ),
      runs_per_integration: v.optional(
        v.pipe(
          among(1, 1_000),
          v.description("Maximum number of scheduled runs of one integration at once, in all replicas together."),
        ),
      ),
      deadline: v.optional(v.pipe(duration, v.description("Time limit of a run: 1s to 24h."))),
      busy: v.optional(v.pipe(duration, v.description("Maximum time of computing without waiting: 100ms to 5m."))),
      memory_bytes: v.optional(
        v.pipe(among(33_554_432, 1_073_741_824), v.description("Memory limit of each run, in bytes.")),
      ),
      tool_calls: v.optional(
        v.pipe(
          among(1, 10_000_000),
          v.description("Maximum number of calls of a run: requests, saved records and so on."),
        ),
      ),
      tool_calls_at_once: v.optional(
        v.pipe(among(1, 1_000), v.description("Maximum number of calls at once. Further ones wait.")),
      ),
      output_bytes: v.optional(
        v.pipe(among(1_024, 16_777_216), v.description("Maximum size of an action's output as JSON, in bytes.")),
      ),
      log_lines: v.optional(v.pipe(among(0, 100_000), v.description("Maximum number of log lines of a run."))),
      log_line_bytes: v.optional(among(64, 65_536)),
    }),
  ),
  webhooks: v.optional(
    v.strictObject({
      outbox: v.optional(
        v.pipe(
          v.number(),
          v.integer(),
          v.minValue(1),
          v.maxValue(10_000_000),
          v.description(
            "Maximum number of pending deliveries for one URL, plus a ninth for all others. Above it, webhooks are refused, so that providers retry.",
          ),
        ),
      ),
      per_destination: v.optional(
        v.pipe(
          v.number(),
          v.integer(),
          v.minValue(1),
          v.maxValue(1_000),
          v.description(
            "Maximum number of concurrent deliveries to one destination, of all replicas together. Default: 32 for each replica, at most 128 in all.",
          ),
        ),
      ),
      timeout: v.optional(v.pipe(duration, v.description("Time limit of a delivery attempt: 100ms to 5m."))),
    }),
  ),
  proxy: v.optional(
    v.strictObject({
      connect_ms: v.optional(
        v.pipe(milliseconds, v.description("Time limit for connecting to a provider, in milliseconds.")),
      ),
      answer_ms: v.optional(
        v.pipe(
          milliseconds,
          v.description("Time limit from the end of a request to the head of its response, in milliseconds."),
        ),
      ),
      idle_ms: v.optional(
        v.pipe(milliseconds, v.description("Time limit without data in either direction, in milliseconds.")),
      ),
      requests_per_host: v.optional(count),
      waiting_per_host: v.optional(count),
      requests: v.optional(
        v.pipe(count, v.description("Maximum number of pending requests and tunnels, to all hosts together.")),
      ),
      overload: v.optional(
        v.pipe(
          v.strictObject({ delay: v.optional(duration), for: v.optional(duration) }),
          v.description(
            "Refuses new requests while the event loop has been delayed by `delay` for this long. A delay of 0s turns it off.",
          ),
        ),
      ),
      rates: v.optional(
        v.pipe(
          v.strictObject({
            per_key: v.optional(rate),
            per_integration: v.optional(rate),
            per_connection: v.optional(rate),
            integrations: v.optional(
              v.array(
                v.pipe(
                  v.strictObject({
                    environment: name,
                    key: v.string(),
                    per_integration: v.optional(rate),
                    per_connection: v.optional(rate),
                  }),
                  v.description("Overrides of the general limits for an integration."),
                ),
              ),
            ),
          }),
          v.description("Rate limits of callers, in each process."),
        ),
      ),
    }),
  ),
  retention: v.optional(
    v.strictObject({
      logs: v.optional(v.pipe(duration, v.description("Retention of logs: an hour to a year."))),
      log_count: v.optional(
        v.pipe(
          v.number(),
          v.integer(),
          v.minValue(100),
          v.maxValue(1_000_000),
          v.description("Maximum number of logs of an environment. Above it, the oldest are deleted."),
        ),
      ),
      deliveries: v.optional(
        v.pipe(
          duration,
          v.description("Retention of webhooks and deliveries, for reading and replays: an hour to a year."),
        ),
      ),
      records: v.optional(
        v.pipe(
          duration,
          v.description("Retention of deleted records, and of records that no run has touched: an hour to a year."),
        ),
      ),
    }),
  ),
  access_sessions: v.optional(sessionTimes),
  aliases: v.optional(
    v.array(
      v.pipe(
        v.strictObject({
          name,
          environment: name,
          integration: v.string(),
          connection: v.string(),
          listen: v.optional(v.string()),
        }),
        v.description(
          "An address for one connection: <name>.localhost on the data listener, and optionally a listener of its own.",
        ),
      ),
    ),
  ),
  forward_proxy: v.optional(forwardProxySchema),
  tls: v.optional(
    v.strictObject({
      data: v.optional(tls),
      public: v.optional(tls),
      control: v.optional(tls),
      ops: v.optional(tls),
      ui: v.optional(tls),
    }),
  ),
  egress: v.optional(egressSchema(secret)),
  edges: v.optional(edgesSchema(name)),
  identities: v.optional(identitiesSchema({ name, scope })),
  dashboard: v.optional(
    v.strictObject({
      enabled: v.optional(v.pipe(v.boolean(), v.description("Serves the dashboard (LATCHKEY_UI)."))),
      listen: v.optional(
        v.pipe(v.string(), v.description("Address of a listener for the dashboard alone (LATCHKEY_UI_LISTEN).")),
      ),
      oidc: v.optional(oidc),
    }),
  ),
});

export type ConfigFile = v.InferOutput<typeof fileSchema>;
export type SecretReference = v.InferOutput<typeof secret>;
