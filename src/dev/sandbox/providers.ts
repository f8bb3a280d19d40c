import { readyApiKey, readyUser } from "./auth/access.ts";
import { readyClient } from "./auth/clients.ts";

const { id, secret = "" } = readyClient;
const clientSteps = {
  setup_steps: [
    { text: "Create no app. The sandbox takes any redirect URI.", value: "callback_url" },
    { text: `Enter the client ID \`${id}\` and the client secret \`${secret}\`.`, value: "client" },
  ],
};
const quickstart = { ...clientSteps, quickstart_client: { client_id: id, client_secret: secret } };
const keySteps = { setup_steps: [{ text: `Connect with the API key \`${readyApiKey}\`.` }] };
const userSteps = {
  setup_steps: [
    { text: `Connect with the user name \`${readyUser.name}\` and the password \`${readyUser.password}\`.` },
  ],
};

/**
 * Describes the sandbox to latchkey: providers in the fields of the catalogue, ready for the configuration file and the
 * control plane. `origin` is the sandbox's own.
 *
 * Addresses that receive credentials are always `https` in a description. For a sandbox without TLS the operator must
 * allow plain HTTP in `LATCHKEY_ALLOW_PRIVATE` (`allowPrivateFor`). Addresses for browsers keep their scheme.
 */
export function describeProviders(origin: string): readonly ProviderDescription[] {
  const secure = origin.replace(/^http:/, "https:");
  const proxy = { base_url: secure };
  const endpoints = {
    token_url: `${secure}/oauth2/token`,
    revocation_url: `${secure}/oauth2/revoke`,
    issuer: origin,
    jwks_url: `${secure}/oauth2/jwks`,
  };
  const oauth2 = {
    authorization_url: `${origin}/oauth2/auth`,
    ...endpoints,
    device_authorization_url: `${secure}/oauth2/device_authorization`,
    authorization_params: { access_type: "offline", prompt: "consent" },
  };
  // Without `items`: the unified provider has several APIs, each with its own list field.
  const paging = { kind: "cursor", next: "nextPageToken", parameter: "pageToken" };
  // The sandbox answers 401 to any other key or password.
  const verification = { request: { method: "GET", path: "/api/me" } };
  const identityScopes = ["openid", "email", "profile"];
  return [
    {
      name: "sandbox-files",
      ...quickstart,
      display_name: "Sandbox: file storage",
      categories: ["file-storage"],
      oauth2: { ...oauth2, default_scopes: [...identityScopes, "drive"] },
      proxy: { ...proxy, pagination: { ...paging, items: "files", limit_parameter: "pageSize", limit: 100 } },
    },
    {
      name: "sandbox-unified",
      ...quickstart,
      display_name: "Sandbox: files, mail, calendar, spreadsheets",
      categories: ["file-storage", "mail", "calendar", "spreadsheets"],
      oauth2: { ...oauth2, default_scopes: [...identityScopes, "drive", "gmail.modify", "calendar", "spreadsheets"] },
      proxy: { ...proxy, pagination: paging },
    },
    {
      name: "sandbox-calendar",
      ...quickstart,
      display_name: "Sandbox: calendar",
      categories: ["calendar"],
      oauth2: { ...oauth2, default_scopes: [...identityScopes, "calendar"] },
      proxy: { ...proxy, pagination: { ...paging, items: "items", limit_parameter: "maxResults", limit: 250 } },
      notification,
      channel,
      describe: [
        {
          request: { method: "GET", path: "/v3/users/me/calendarList/primary" },
          value: "id",
          field: "connection_config.emailAddressHash",
          transform: "TRANSFORM_EMAIL_HASH",
        },
      ],
    },
    {
      name: "sandbox-client-credentials",
      ...clientSteps,
      display_name: "Sandbox: OAuth 2 client credentials",
      categories: ["example"],
      oauth2_client: { ...endpoints, default_scopes: ["drive"] },
      proxy,
    },
    {
      name: "sandbox-oauth1",
      ...clientSteps,
      display_name: "Sandbox: OAuth 1",
      categories: ["example"],
      oauth1: {
        request_token_url: `${secure}/oauth/request_token`,
        authorization_url: `${origin}/oauth/authorize`,
        access_token_url: `${secure}/oauth/access_token`,
      },
      proxy,
    },
    {
      name: "sandbox-api-key",
      ...keySteps,
      display_name: "Sandbox: API key",
      categories: ["example"],
      api_key: { header: "x-api-key" },
      proxy,
      verification,
    },
    {
      name: "sandbox-basic",
      ...userSteps,
      display_name: "Sandbox: user name and password",
      categories: ["example"],
      basic: {},
      proxy,
      verification,
    },
  ];
}

export type ProviderDescription = Readonly<Record<string, unknown>> & { readonly name: string };

/** The entry of `LATCHKEY_ALLOW_PRIVATE` for a sandbox: `http://127.0.0.1:3010`, or `127.0.0.1:3010` with TLS. */
export function allowPrivateFor(origin: string): string {
  const { protocol, hostname, port } = new URL(origin);
  const isSecure = protocol === "https:";
  const address = `${hostname}:${port === "" ? (isSecure ? 443 : 80) : port}`;
  return isSecure ? address : `http://${address}`;
}

/** Equals the catalogue's calendar: the sandbox sends the same headers. */
const notification = {
  header_prefix: "x-cal-",
  secret_headers: ["x-cal-channel-token"],
  signature: { scheme: "channel_token", header: "x-cal-channel-token" },
  sync_state: "sync",
  values: {
    uri: { header: "x-cal-resource-uri" },
    calendar: { header: "x-cal-resource-uri", segment_after: "/calendars/" },
    channel: { header: "x-cal-channel-id" },
    number: { header: "x-cal-message-number" },
    state: { header: "x-cal-resource-state" },
    resource: { header: "x-cal-resource-id" },
  },
  message_id: ["channel", "number"],
  channel: "channel",
  number: "number",
  state: "state",
  resource_id: "resource",
  lookups: [
    { field: "metadata.calendarWatchResourceUris", value: "uri" },
    { field: "connection_config.emailAddressHash", value: "calendar", transform: "TRANSFORM_EMAIL_HASH" },
    { field: "metadata.emailAddress", value: "calendar" },
    { field: "metadata.email", value: "calendar" },
  ],
};

const channel = {
  max_id_length: 64,
  sequential_numbers: true,
  id_taken_reason: "channelIdNotUnique",
  channel_id_key: "calendarChannelId",
  resource_id_key: "calendarResourceId",
  resource_uris_key: "calendarWatchResourceUris",
  resources: {
    events: {
      watch: {
        method: "POST",
        path: "/v3/calendars/${resource}/events/watch",
        body: '{"id":"${id}","type":"web_hook","address":"${address}","token":"${token}","expiration":"${expiration}"}',
      },
      default_resource: "primary",
      resource_id: "resourceId",
      resource_uri: "resourceUri",
      expiration: "expiration",
    },
  },
  stop: { method: "POST", path: "/v3/channels/stop", body: '{"id":"${id}","resourceId":"${resourceId}"}' },
};
