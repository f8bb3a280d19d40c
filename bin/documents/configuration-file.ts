import { defaultLimits, defaultRelay } from "../../src/config/limits.ts";
import { defaultListed } from "../../src/config/mcp/mcp-listing.ts";
import { defaultProxyLimits } from "../../src/config/proxy.ts";
import { defaultRetention } from "../../src/config/retention.ts";
import { defaultScripts } from "../../src/config/scripts.ts";
import { defaultWebhooks } from "../../src/config/webhooks.ts";

const seconds = (ms: number): string => (ms % 1_000 === 0 ? `${ms / 1_000}s` : `${ms}ms`);
const days = (ms: number): string => `${ms / 86_400_000}d`;

/** Returns a configuration file with every key, each with its meaning. The generator checks it by the schema. */
export function annotatedFile(hasBranding: boolean): string {
  const { connections, ...sizes } = defaultLimits;
  const { requests, overload } = defaultProxyLimits;
  const { limits: run, ...scripts } = defaultScripts;
  const branding = `    branding:                                # shown on the connect pages; all optional
      name: Acme
      logo: "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
      accent_color: "#1f4fbf"
      support_url: https://acme.example.com/support
`;
  return `environments:
  - name: prod                               # lower-case letters, digits and dashes
    keys:                                    # keys of your services
      - id: app
        key: { file: /run/secrets/app-key }
        scopes: [proxy, "connections:read"]  # default: all but admin
        limits:                              # what it may use; a request must satisfy every field
          connections: [{ integration: calendar, id: ada }]  # without id: all of the integration
          methods: [GET]
          paths: ["/calendar/v3/**"]         # * is one segment, ** at the end any rest
          hosts: [www.googleapis.com]        # or *.googleapis.com
          tools: [search, read_*]            # of MCP servers; * at the end is any rest
    forward:                                 # your application, which receives webhooks
      url: https://app.example.com/hooks
      secondary: https://audit.example.com/hooks  # gets a copy
      secret: { env: FORWARD_SECRET }        # whsec_…; or a list of up to 3, newest first
    allowed_origins: [https://app.example.com]    # pages that may use the browser routes
${hasBranding ? branding : ""}    variables:                               # for scripts: text, or a reference to a secret
      REGION: eu
      API_TOKEN: { env: API_TOKEN }

integrations:
  - environment: prod
    key: calendar                            # callers send it as Provider-Config-Key
    provider: google-calendar                # see: latchkey providers list
    display_name: Google Calendar            # shown on the connect page
    oauth:                                   # your app at the provider
      client_id: 1234.apps.googleusercontent.com
      client_secret: { file: /run/secrets/google-client-secret }
      private_key: { file: /run/secrets/app-key.pem }  # instead of a secret, where the provider asks for one
      scopes: ["https://www.googleapis.com/auth/calendar"]
      further_scopes: { user: [users:read] } # of the provider's further tokens, as Slack has
      publishing: production                 # or testing: Google ends such grants after 7 days
    webhook_secret: { env: WEBHOOK_SECRET }  # proves the provider's webhooks
    client_certificate: { file: /run/secrets/client.pem }      # for providers with mTLS
    client_private_key: { file: /run/secrets/client-key.pem }
    callback: shared                         # or bound: a redirect URI for this integration alone
    hosts:                                   # more hosts that may receive the credentials
      - prefix: /upload                      # optional: only paths below this one go there
        origin: https://upload.example.com
    channels:
      automatic: false                       # true: keep a watch channel for each connection
      catch_up_syncs: [events]               # run when a channel lost notifications
    reflection: "off"                        # answers that repeat the credential: off, mask, refuse
    forward: true                            # false: do not deliver its webhooks
    connection_defaults: { subdomain: acme } # default connection_config
    settings: { developer_token: { env: DEV_TOKEN } } # values that the provider needs
    use_record: "off"                        # record each use: off, host, path
    keep_set_cookie: false                   # true: pass on Set-Cookie of the provider
    keep_grants: false                       # true: do not revoke grants when connections are deleted
    credentials_in_scripts: false            # true: scripts may read credentials
  - environment: prod
    key: notion-mcp
    mcp: https://mcp.example.com/mcp         # an MCP server in place of a provider; needs nothing else

providers: []                                # your own, in the format of the catalog

policies:                                    # which requests are sent to providers
  - id: no-deletes
    environment: prod
    integration: github                      # or key, or access_session; default: all of the environment
    effect: deny                             # allow, deny, hold or log
    condition: request.method == "DELETE" && caller.key != "admin-tool"
    description: repositories are deleted by people   # callers that are refused see it
    enabled: true
  - { id: agent-reads, environment: prod, key: agent, effect: allow, condition: 'request.method == "GET"' }
  - id: payouts
    environment: prod
    effect: hold                             # a person approves each request; see approvals.md
    condition: request.path == "/v1/payouts"
    answer_within: 30m                       # no answer is a no; default: 1h
    wait: 20s                                # on the connection of the caller; default: 10s
    remember: 15m                            # longest time for which an answer may cover others; default: none
  - { id: session, environment: prod, access_session: as_1, effect: log, condition: "true" }

limits:                                      # sizes of requests; needs a restart
  json_body_bytes: ${sizes.jsonBodyBytes}
  rpc_message_bytes: ${sizes.rpcMessageBytes}
  webhook_body_bytes: ${sizes.webhookBodyBytes}
  head_bytes: ${sizes.headBytes}
  head_lines: ${sizes.headLines}
  path_bytes: ${sizes.pathBytes}
  connections:                               # open connections of a listener
    data: ${connections.data}
    forward_proxy: ${connections.forwardProxy}
    public: ${connections.public}
    control: ${connections.control}
    ops: ${connections.ops}
    ui: ${connections.ui}

proxy:
  connect_ms: ${defaultRelay.connectMs}                          # connect to a provider
  answer_ms: ${defaultRelay.answerMs}                          # end of the request to the head of the answer
  idle_ms: ${defaultRelay.idleMs}                            # no data in either direction
  requests_per_host: ${defaultRelay.perOrigin}                    # at once; further ones wait
  waiting_per_host: ${defaultRelay.waitingPerOrigin}                     # further ones are refused
  requests: ${requests}                            # pending requests in all
  overload: { delay: ${seconds(overload.delayMs)}, for: ${seconds(overload.forMs)} }         # refuse new requests while the process is that late
  rates:                                     # default: no limits; counted in each process
    per_key: { requests: 6000, per: 1m, burst: 200 }
    per_integration: { requests: 3000, per: 1m }
    per_connection: { requests: 600, per: 1m }
    integrations:                            # other limits for one integration
      - environment: prod
        key: calendar
        per_integration: { requests: 1000, per: 1m }
        per_connection: { requests: 60, per: 1m }

webhooks:
  outbox: ${defaultWebhooks.maxWaiting}                             # pending deliveries for one URL
  per_destination: 32                        # at once, of all replicas; default: 32 each, at most 128 in all
  timeout: ${seconds(defaultWebhooks.timeoutMs)}                               # of an attempt

scripts:                                     # needs a restart
  threads: ${scripts.threads}
  runs: ${scripts.runs}                                   # scheduled runs at once in each replica
  runs_per_integration: ${scripts.runsPerIntegration}                    # in all replicas together
  deadline: ${seconds(run.deadlineMs)}                             # of a run
  busy: ${seconds(run.busyMs)}                                  # computing without waiting
  memory_bytes: ${run.memoryBytes}
  tool_calls: ${run.toolCalls}
  tool_calls_at_once: ${run.toolCallsAtOnce}
  output_bytes: ${run.outputBytes}                      # of an action
  log_lines: ${run.logLines}
  log_line_bytes: ${run.logLineBytes}

retention:
  logs: ${days(defaultRetention.maxAgeMs)}
  log_count: ${defaultRetention.maxCount}                          # of an environment
  deliveries: ${days(defaultRetention.deliveriesMs)}                             # webhooks, for reading and replays
  records: ${days(defaultRetention.recordsMs)}                               # deleted records, and those that no run touches

access_sessions:                             # needs a restart
  default_life: 1h                           # if the creator names none
  longest_life: 24h                          # at most 30d

aliases:                                     # an address for one connection, for SDKs without headers
  - name: gcal-ada                           # http://gcal-ada.localhost:3003
    environment: prod
    integration: calendar
    connection: ada
    listen: 127.0.0.1:3011                   # optional: a listener of its own

forward_proxy:                               # needs a restart
  tunnel: [pypi.org, "*.npmjs.org"]          # hosts that are passed on without looking inside

dashboard:                                   # for people with a browser; needs a restart
  enabled: false                             # true: at /ui/ of the control listener
  listen: 127.0.0.1:3007                     # optional: a listener for the dashboard alone
  oidc:                                      # optional: people sign in through your identity provider
    issuer: https://login.example.com
    client_id: latchkey
    client_secret: { file: /run/secrets/oidc }
    scopes: [openid, email, profile]
    groups_claim: groups
    name_claim: email                        # the name in the audit trail
    groups:                                  # what people may do
      - group: platform
        scopes: [admin]
      - group: support                       # "*" is everyone who can sign in
        environments: [prod]                 # default: all
        scopes: ["connections:read", "integrations:read"]

edges:                                       # who may follow as an edge without a key
  service_accounts:                          # tokens of Kubernetes
    issuer: https://kubernetes.default.svc.cluster.local
    audience: latchkey                       # the tokens' aud
    jwks_url: https://kubernetes.default.svc/openid/v1/jwks  # default: found through the issuer
    jwks_file: /etc/latchkey/jwks.json       # instead of jwks_url, ca and token_file
    ca: /var/run/secrets/kubernetes.io/serviceaccount/ca.crt
    token_file: /var/run/secrets/kubernetes.io/serviceaccount/token  # sent to that URL
    allow:
      - account: shop/checkout               # namespace/name, or shop/* for all of a namespace
        environments: [prod]
  certificates:                              # needs tls.control.client_ca
    - name: "URI:spiffe://cluster.local/ns/shop/sa/checkout"  # or DNS:… or CN:…
      environments: [prod]

egress:                                      # an HTTP proxy for everything that leaves
  proxy: https://proxy.corp.example:3129     # or http://; off: none
  auth: { file: /run/secrets/egress-auth }   # user:password
  no_proxy: [localhost, 127.0.0.0/8, .svc]   # dialed directly; default: this machine
  resolve: local                             # pinned: the proxy gets the address; proxy: it alone resolves
  ca: /etc/latchkey/proxy-ca.pem             # signs the certificate of the proxy itself
  intercept_ca: /etc/latchkey/tls-ca.pem     # signs what the proxy makes to read TLS
  client_cert: /run/egress/tls.crt           # shown to the proxy
  client_key: /run/egress/tls.key

mcp:                                         # tools that Latchkey's own MCP server shows
  listed: ${defaultListed}                                 # up to this number all; beyond it, agents search
  pinned: [calendar_create-event, files_*]   # shown in any case; * at the end is any rest

identities:                                  # callers that prove who they are instead of sending a key
  issuers:
    - name: cluster                          # a Kubernetes cluster
      issuer: https://kubernetes.default.svc.cluster.local
      audience: latchkey                     # the tokens' aud
      jwks_url: https://kubernetes.default.svc/openid/v1/jwks  # default: found through the issuer
      ca: /var/run/secrets/kubernetes.io/serviceaccount/ca.crt
      token_file: /var/run/secrets/kubernetes.io/serviceaccount/token  # sent to that URL
    - name: spire                            # a SPIFFE trust domain
      trust_domain: example.org
      audience: latchkey
      jwks_file: /run/spire/bundle.json      # instead of jwks_url, ca and token_file
      x509: true                             # X.509-SVIDs count too; needs client_ca
    - name: company                          # an OAuth server: its users reach the MCP endpoint
      issuer: https://login.example.com
      audience: https://latchkey.example.com/mcp  # the endpoint, as clients reach it
      users: true
  rules:                                     # the first that fits a caller counts
    - service_account: shop/checkout         # namespace/name, or shop/* for all of a namespace
      issuer: cluster                        # needed if there are several clusters
      environment: prod
      scopes: [proxy]                        # default
      limits:                                # optional: what may be used
        connections: [{ integration: calendar, id: ada }]
        methods: [GET]
        paths: [/calendar/v3/**]
        hosts: ["*.googleapis.com"]
        tools: [search]                      # of MCP servers
    - spiffe: spiffe://example.org/ns/*/sa/report  # * is one segment, ** at the end any rest
      environment: prod
    - user: "*"                              # or the sub of one; needs issuer
      issuer: company
      environment: prod
    - certificate: "DNS:batch.internal"      # or URI:… or CN:…; needs client_ca
      environment: prod
    - unix: { uid: 1000 }                    # a user of this machine or pod, over the loopback interface
      environment: prod
    - unix: { socket: /run/latchkey/job.sock, owner: 1001, group: 1001, mode: "0660" }  # a socket of its own
      environment: prod

tls:                                         # PEM files; also for public, control, ops and ui
  data:
    cert: /run/tls/tls.crt
    key: /run/tls/tls.key
    client_ca: /run/tls/ca.crt               # callers must present a certificate
    client_names: ["DNS:app.default.svc"]    # and have one of these names
    client_optional: false                   # true: callers without a certificate are accepted too
`;
}
