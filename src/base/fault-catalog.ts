import type { FaultCode } from "./fault.ts";
import { type FaultEntry, faultSubjects } from "./faults/entry.ts";
import { keyFaults } from "./faults/key-faults.ts";
import { subjectFaults } from "./faults/subject-faults.ts";

const [, request, names, state, connections, providers, own] = faultSubjects;

/** Explains every error code. Loaded only for the page and its document. */
export const faultCatalog: Readonly<Record<FaultCode, FaultEntry>> = {
  ...keyFaults,
  ...subjectFaults,
  invalid_headers: {
    subject: request,
    meaning: "A header is missing or has a value that is not valid.",
    action:
      "Send the header as the message says. Calls for a connection need `Provider-Config-Key` and `Connection-Id`.",
    example: "send the header Provider-Config-Key with the key of an integration",
  },
  duplicate_header: {
    subject: request,
    meaning: "A header that may occur once was sent twice. The connection is closed.",
    action: "Send the header once. Check the client and the proxies between it and Latchkey.",
    example: "the header provider-config-key must be sent once",
  },
  header_mismatch: {
    subject: request,
    meaning:
      "The headers `Mcp-Method`, `Mcp-Name` and `MCP-Protocol-Version` of an MCP request do not say what its message says. The body is a JSON-RPC error with code -32020.",
    action:
      "Send the values of the message, as MCP 2026-07-28 requires, or send none of the headers with an older version.",
    example: "the header mcp-method must equal `method` of the message",
  },
  invalid_message: {
    subject: request,
    meaning: "The body of an MCP request is not one JSON-RPC message, or two parsers could read it in two ways.",
    action: "Send one message as plain JSON in UTF-8, without duplicate keys and without compression.",
    example: "send one JSON-RPC message for each request, not a list of messages",
  },
  invalid_path: {
    subject: request,
    meaning: "The path of the request cannot be sent to the provider.",
    action:
      "Send a path without `.` and `..` segments and without control characters. Set missing values of `connection_config`.",
    example: "the request must name a path",
  },
  invalid_query_params: {
    subject: request,
    meaning: "A query parameter is missing, repeated, or has a value that is not valid.",
    action: "Read `errors`: each entry has the parameter in `path`. Correct all of them at once.",
    example: "the query is not valid: limit must be a whole number from 1 to 2000",
  },
  invalid_json: {
    subject: request,
    meaning: "The body is not JSON in UTF-8.",
    action: "Serialize the body with a JSON library. Send no byte order mark and no trailing comma.",
    example: "the body must be JSON in UTF-8",
  },
  invalid_body: {
    subject: request,
    meaning: "The body is JSON, but a field is missing, unknown or not valid.",
    action: "Read `errors`: each entry has the field in `path`. Correct all of them at once.",
    example: "the body is not valid: provider_config_key is required",
  },
  malformed_request: {
    subject: request,
    meaning: "The request is not well-formed HTTP, or the TLS handshake failed. The connection is closed.",
    action: "Check that client and listener agree on `http` or `https`, and that the client sends a `Host` header.",
    example: "the request is not well-formed HTTP",
  },
  method_not_allowed: {
    subject: request,
    meaning: "The route exists, but not for this method.",
    action: "Use a method of the `Allow` header.",
    example: "the method must be one of GET, PATCH, DELETE, HEAD",
  },
  request_timeout: {
    subject: request,
    meaning: "The head or the body of the request did not arrive in time.",
    action: "Send the request faster: a JSON body must arrive within 30 seconds. Check the network.",
    example: "the body did not arrive in time",
  },
  payload_too_large: {
    subject: request,
    meaning: "The body or the message is larger than the limit.",
    action: "Send less at once, or raise the limit in the configuration file under `limits`.",
    example: "the body must have at most 524288 bytes",
  },
  uri_too_long: {
    subject: request,
    meaning: "The path and query are longer than the limit.",
    action: "Send a shorter query, or raise `limits.path_bytes` in the configuration file.",
    example: "the path must have at most 8192 bytes",
  },
  unsupported_media_type: {
    subject: request,
    meaning: "The body has a type, character set or encoding that the route does not take.",
    action:
      "Send `Content-Type: application/json`, in UTF-8, uncompressed. A form needs the type that the message names.",
    example: "send Content-Type: application/json; this request has application/x-www-form-urlencoded",
  },
  headers_too_large: {
    subject: request,
    meaning: "The request has too many headers, or too many bytes of them.",
    action: "Send fewer headers, or raise `limits.head_bytes` and `limits.head_lines` in the configuration file.",
    example: "the request must have at most 200 headers",
  },
  unknown_environment: {
    subject: names,
    meaning: "There is no environment with this name.",
    action: "Correct the name, or create the environment with `latchkey environments create <name>`.",
    example: 'there is no environment "prdo". You have: dev, prod',
  },
  unknown_provider: {
    subject: names,
    meaning: "There is no provider with this name, neither built in nor of your own.",
    action: "List providers with `latchkey providers list`. Describe your own in a YAML file.",
    example: 'there is no provider "google-calender"',
  },
  unknown_provider_config: {
    subject: names,
    meaning: "There is no integration with this key in the environment of the API key.",
    action: "List integrations with `latchkey integrations list`. Check that the API key is of the right environment.",
    example: 'there is no integration "calender" in this environment',
  },
  unknown_connection: {
    subject: names,
    meaning: "The integration has no connection with this id, in the environment of the API key.",
    action:
      "List connections with `latchkey connections list`. Send the id that the connection was created with, and the integration that it belongs to.",
    example: 'there is no connection "ada" of the integration "calendar"',
  },
  unknown_sync: {
    subject: names,
    meaning: "The integration has no sync, or no variant of the sync, with this name.",
    action: "List scripts with `latchkey scripts list`. The file is `<integration>/syncs/<name>.ts`.",
    example: 'the integration "calendar" has no sync "event"',
  },
  unknown_action: {
    subject: names,
    meaning: "The integration has no action with this name.",
    action: "List scripts with `latchkey scripts list`. The file is `<integration>/actions/<name>.ts`.",
    example: 'the integration "calendar" has no action "create-events"',
  },
  ambiguous_function: {
    subject: names,
    meaning: "The integration has several scripts with this name.",
    action: "Send the query parameter `type`: `action`, `sync` or `on-event`. `payload.matches` lists them.",
    example: 'the integration has several functions "both": send type as well',
  },
  not_found: {
    subject: names,
    meaning: "There is no such route, or no such object (run, webhook, channel, key, log).",
    action: "Check the path and the id. Old objects are deleted after their retention period.",
    example: "no such route",
  },
  function_managed_by_deploy: {
    subject: state,
    meaning: "Scripts are files of a folder, and cannot be deleted by a request.",
    action: "Delete the file in the folder that `LATCHKEY_SCRIPTS` names.",
    example: "functions are files of the folder that LATCHKEY_SCRIPTS names",
  },
  approval_mismatch: {
    subject: state,
    meaning: "The request differs from the one that the approval is for, if only by one byte.",
    action:
      "Repeat the request with the same method, URL, headers and body. For another request, leave `Latchkey-Approval` out: a person is asked about it.",
    example:
      "the request is not the one that the approval 3q2-7wAAB0CqfY1mXk9Z5g is for: its method, URL, headers or body differ",
  },
  approval_used: {
    subject: state,
    meaning: "The approval was used: its request was sent, or Latchkey stopped just before.",
    action: "Look at the provider whether the request has arrived. For another one, leave `Latchkey-Approval` out.",
    example:
      "the approval 3q2-7wAAB0CqfY1mXk9Z5g was used: its request was sent; for another one, leave Latchkey-Approval out",
  },
  already_exists: {
    subject: state,
    meaning: "An object with this name or id already exists.",
    action: "Choose another name, or change the existing object.",
    example: 'there is an integration "calendar" already',
  },
  conflict: {
    subject: state,
    meaning: "The object changed since you read it, or is in a state that does not allow this.",
    action: "Read the object again and repeat the change with its current revision.",
    example: "another request changed the object at the same time; read it again",
  },
  ambiguous_connection: {
    subject: connections,
    meaning: "A request of the forward proxy fits several connections, and names none of them.",
    action:
      "Name one: as the proxy's user name, `http://github%2Fada:<key>@host:port`, or in the headers `Provider-Config-Key` and `Connection-Id`.",
    example: "api.github.com fits several connections: github/ada, github/bob; name one as the proxy's user name",
  },
  in_use: {
    subject: state,
    meaning: "Something else still uses the object, so it cannot be deleted.",
    action: "Delete or change what uses it first: the message names it.",
    example: 'the integration "calendar" still has connections',
  },
  read_only: {
    subject: state,
    meaning: "The object is declared in the configuration, or built in, and cannot be changed by a request.",
    action: "Change it in the configuration file or the variable. The file is read again when it changes.",
    example: 'the integration "calendar" is declared in the configuration file; change it there',
  },
  unknown_authorization: {
    subject: connections,
    meaning:
      "The provider's answer belongs to no authorization in progress: the authorization is older than 10 minutes, or was used.",
    action: "Begin the authorization again from your application.",
    example: "this response belongs to no pending authorization; begin again",
  },
  connection_test_failed: {
    subject: connections,
    meaning: "The provider refused the entered credentials, or a script that checks them did. Nothing was stored.",
    action: "Enter the credentials again. Check that they are of the right account and may call the provider's API.",
    example: "The provider does not accept these credentials. Nothing was stored.",
  },
  reauthorization_required: {
    subject: connections,
    meaning: "The provider no longer accepts the grant: it was revoked, or the refresh token has expired.",
    action:
      "Ask the user to connect again: create a session with `POST /connect/sessions/reconnect` and show its link.",
    example: 'the end user must authorize "ada" again (invalid_grant)',
  },
  connection_unusable: {
    subject: connections,
    meaning: "The connection lacks a value that requests need, or its stored credentials cannot be used.",
    action:
      "Read the message. If a value is missing, set all values with `latchkey connections update <integration>/<connection> --connection-config <json>`. If not, connect again.",
    example: "the connection cannot be used: the provider requires subdomain, which is missing",
  },
  choice_needed: {
    subject: connections,
    meaning:
      "The end user has authorized several accounts, and none is chosen yet. Requests need the chosen one. `metadata.choice` names the choice.",
    action:
      "Let the end user choose on the connect page, or choose with `latchkey connections choose <integration>/<connection>` or `POST /connections/<connection>/choices`.",
    example: "the end user must choose first: organisation",
  },
  integration_misconfigured: {
    subject: connections,
    meaning:
      "The integration's app does not work: the provider refuses its client id or secret, or a setting is missing.",
    action: "Compare client id, secret and redirect URI with the provider's console, and update the integration.",
    example: "the provider refuses the integration's OAuth app (invalid_client)",
  },
  discovery_failed: {
    subject: connections,
    meaning: "An MCP server, or its authorization server, does not publish what Latchkey needs to connect to it.",
    action: "Read the message. Check the URL. A server that only takes API keys needs a provider description.",
    example: "the MCP server could not be set up: its resource metadata name no authorization server",
  },
  client_required: {
    subject: connections,
    meaning: "The authorization server of an MCP server registers no clients by itself.",
    action:
      "Register an app there with the redirect URI of the message. Send its client ID and client secret with the integration.",
    example:
      "the authorization server https://auth.example.com does not register clients by itself: register an app there …",
  },
  authorization_failed: {
    subject: connections,
    meaning: "The provider did not complete the authorization.",
    action: "Read the reason with `latchkey logs`, correct it and begin again.",
    example: "The provider did not accept what it had just issued. Begin again.",
  },
  script_failed: {
    subject: connections,
    meaning: "Your action or script failed. The `code` and `payload` of the answer describe the script's error.",
    action:
      "Find the run with `latchkey syncs runs <integration> --state failed`, and correct the script or its input.",
    example: "the action failed",
  },
  refresh_unavailable: {
    subject: connections,
    meaning: "The access token has expired, and the provider's token endpoint does not issue a new one now.",
    action: "Try again after `Retry-After`. Latchkey refreshes again by itself.",
    example: "the credentials have expired and could not be refreshed: the provider answered 503",
  },
  provider_unreachable: {
    subject: providers,
    meaning: "No connection to the provider could be opened.",
    action: "Check the provider's status, and outgoing network rules. Try again later.",
    example: "the provider's host: ECONNREFUSED",
  },
  provider_unknown: {
    subject: providers,
    meaning: "The provider's host name does not resolve.",
    action: "Check the base URL and `connection_config`, such as a subdomain. Check DNS on Latchkey's machine.",
    example: "acme.example.com could not be resolved: ENOTFOUND",
  },
  provider_untrusted: {
    subject: providers,
    meaning: "The provider's TLS certificate is not trusted.",
    action:
      "Set `LATCHKEY_PROVIDER_CA` for a private certificate authority. Otherwise, find out what intercepts the connection.",
    example: "no trusted connection: SELF_SIGNED_CERT_IN_CHAIN",
  },
  egress_proxy_failed: {
    subject: providers,
    meaning:
      "The egress proxy that the operator has set cannot be reached or used. Nothing was sent to the provider, and nothing is dialed directly instead.",
    action:
      "The operator checks the proxy and `LATCHKEY_EGRESS_PROXY`: address, certificate, user and password. `latchkey doctor` names the reason.",
    example: "the egress proxy cannot be reached: ECONNREFUSED",
  },
  egress_proxy_refused: {
    subject: providers,
    meaning: "The rules of the egress proxy forbid the provider's host. Nothing was sent to the provider.",
    action: "Ask the operator of the proxy to allow the host, or list the host in `egress.no_proxy`.",
    example: "the egress proxy refuses connections to api.example.com:443 (403)",
  },
  provider_closed: {
    subject: providers,
    meaning: "The provider closed the connection before its answer was complete.",
    action: "Try again if the request may be repeated. `Retries: <n>` lets Latchkey do so.",
    example: "the provider ended the connection",
  },
  provider_malformed: {
    subject: providers,
    meaning: "The provider's answer is not well-formed HTTP, or not what the protocol requires.",
    action: "Call the provider directly to compare. Report it to the provider.",
    example: "the response's headers are malformed",
  },
  http2_required: {
    subject: providers,
    meaning: "The call needs HTTP/2, for example gRPC, but the provider does not offer it.",
    action: "Check that the host is the provider's gRPC endpoint.",
    example: "api.example.com does not support HTTP/2, which the request requires",
  },
  provider_timeout: {
    subject: providers,
    meaning: "The provider did not connect or answer in time.",
    action: "Try again if the request may be repeated. Raise the timeouts in the configuration file under `proxy`.",
    example: "no response in time",
  },
  credential_echo: {
    subject: providers,
    meaning: "The provider's answer contained the credential, and the integration refuses such answers.",
    action: "Call another endpoint, or set `reflection` of the integration to `mask`.",
    example: "the provider's response contains the credentials that were sent to it",
  },
  too_many_requests: {
    subject: own,
    meaning:
      "A rate limit of the configuration or a provider's limit is reached, or a connect session has too many authorizations pending.",
    action: "Wait for `Retry-After`, or raise `proxy.rates` in the configuration file.",
    example: "rate limit of the key exceeded (per_key); try again later",
  },
  watch_too_slow: {
    subject: own,
    meaning: "The client read a stream of changes too slowly. Latchkey ended the stream.",
    action: "Watch again from the last revision that you received, and read faster.",
    example: "the watcher fell too far behind; resume from the last revision that it received",
  },
  not_implemented: {
    subject: own,
    meaning: "This version does not have the method or protocol.",
    action: "Update Latchkey, or use another method.",
    example: "only WebSocket upgrades of GET over HTTP/1.1 are supported",
  },
  store_unavailable: {
    subject: own,
    meaning: "The store does not accept writes now. The request stored nothing.",
    action: "Try again after `Retry-After`. Check the disk or the database: `/readyz` of the ops listener says why.",
    example: "the store does not accept writes now; retry",
  },
  brokers_unavailable: {
    subject: own,
    meaning:
      "This process is an edge. It reaches no broker now, and does not have the connection or the key in memory.",
    action: "Try again after `Retry-After`. `/readyz` of the ops listener says since when brokers are away, and why.",
    example: "no broker can be reached, and this edge does not have what it needs",
  },
  overloaded: {
    subject: own,
    meaning: "A limit of this process is reached: open connections, requests in progress, or memory for bodies.",
    action: "Try again after `Retry-After`. Add a replica, or raise the limits in the configuration file.",
    example: "too many requests are in progress; try again later",
  },
  not_ready: {
    subject: own,
    meaning: "The process is starting or stopping.",
    action: "Try again after a second, or send the request to another replica.",
    example: "Latchkey is starting",
  },
  internal: {
    subject: own,
    meaning: "An unexpected error of Latchkey.",
    action: "Search the log for the id in the message. Report it together with that log entry.",
    example: "internal error; its log id is 0mwt3k8v",
  },
};
