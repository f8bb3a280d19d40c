import { createHmac, randomUUID } from "node:crypto";
import { bearerOf, hub, textIn, timeIn } from "../../../../src/dev/sandbox/apis/neutral-styles.ts";
import type { Subscription, SubscriptionStyle } from "../../../../src/dev/sandbox/apis/subscription-style.ts";
import { type Call, formOf, json, objectOf, refuse } from "../../../../src/dev/sandbox/call.ts";
import { dayMs, hourMs } from "../channels.ts";

/** The requests and responses of each provider's subscriptions, as its documentation shows them. */

const isoOf = ({ expiresAtMs }: Subscription) => new Date(expiresAtMs).toISOString();
const idIn = ({ params }: Call) => [params["id"] ?? ""];
const list = (call: Call, name: string): readonly unknown[] => {
  const value = objectOf(call)[name];
  if (!Array.isArray(value) || value.length === 0) throw refuse(400, "invalid", `${name} must be a list.`);
  return value;
};
const object = (value: unknown) => ({ ...(value as Readonly<Record<string, unknown>>) });

/** A channel as Google's APIs have it: `resource` names what it watches. */
const channel = (
  name: string,
  { path, stop, longestMs, ttl = false }: { path: string; stop: string; longestMs: number; ttl?: boolean },
): SubscriptionStyle => ({
  name,
  create: { method: "POST", path },
  stop: { method: "POST", path: stop },
  longestMs,
  asked(call) {
    const fields = objectOf(call);
    if (textIn(fields, "type") !== "web_hook") throw refuse(400, "unknownChannelType", "The type must be web_hook.");
    const { expiration } = fields;
    const lifeMs = ttl ? Number(object(fields["params"])["ttl"]) * 1_000 : undefined;
    return {
      id: textIn(fields, "id"),
      owner: bearerOf(call),
      resource: call.params["resource"] ?? call.query.get("event") ?? call.query.get("pageToken") ?? "",
      address: textIn(fields, "address"),
      token: textIn(fields, "token"),
      ...(lifeMs === undefined
        ? { expiresAtMs: expiration === undefined ? undefined : Number(expiration) }
        : { lifeMs }),
    };
  },
  named: (call) => [textIn(objectOf(call), "id"), textIn(objectOf(call), "resourceId")].slice(0, 1),
  ownerOf: bearerOf,
  created: (one) =>
    json({ id: one.id, resourceId: `r-${one.resource}`, resourceUri: "u", expiration: String(one.expiresAtMs) }),
});

const graph: SubscriptionStyle = {
  name: "microsoft",
  create: { method: "POST", path: "/v1.0/subscriptions" },
  renew: { method: "PATCH", path: "/v1.0/subscriptions/:id" },
  reauthorize: { method: "POST", path: "/v1.0/subscriptions/:id/reauthorize" },
  stop: { method: "DELETE", path: "/v1.0/subscriptions/:id" },
  list: { method: "GET", path: "/v1.0/subscriptions" },
  longestMs: 253_800_000,
  verification: "echo",
  asked(call) {
    const fields = objectOf(call);
    const expiresAtMs = timeIn(fields, "expirationDateTime");
    if (call.method === "PATCH") return { owner: bearerOf(call), resource: "", address: "", expiresAtMs };
    textIn(fields, "lifecycleNotificationUrl");
    textIn(fields, "changeType");
    const [resource, address] = [textIn(fields, "resource"), textIn(fields, "notificationUrl")];
    return { owner: bearerOf(call), resource, address, token: textIn(fields, "clientState"), expiresAtMs };
  },
  named: idIn,
  ownerOf: bearerOf,
  created: (one) => json({ id: one.id, expirationDateTime: isoOf(one) }, { status: 201 }),
  renewed: (one) => json({ id: one.id, expirationDateTime: isoOf(one) }),
  listed: (all) =>
    json({ value: all.map((one) => ({ id: one.id, notificationUrl: one.address, expirationDateTime: isoOf(one) })) }),
};

const mailbox: SubscriptionStyle = {
  name: "google-mail",
  create: { method: "POST", path: "/gmail/v1/users/me/watch" },
  stop: { method: "POST", path: "/gmail/v1/users/me/stop" },
  longestMs: 7 * dayMs,
  repeats: true,
  asked(call) {
    const topic = textIn(objectOf(call), "topicName");
    if (!/^projects\/[^/]+\/topics\/[^/]+$/.test(topic)) throw refuse(400, "invalid", "Invalid topicName.");
    return { id: "me", owner: bearerOf(call), resource: "", address: "https://pubsub.invalid/" };
  },
  named: () => ["me"],
  ownerOf: bearerOf,
  created: (one) => json({ historyId: "1234567890", expiration: String(one.expiresAtMs) }),
};

const airtable: SubscriptionStyle = {
  name: "airtable",
  create: { method: "POST", path: "/v0/bases/:base/webhooks" },
  renew: { method: "POST", path: "/v0/bases/:base/webhooks/:id/refresh" },
  stop: { method: "DELETE", path: "/v0/bases/:base/webhooks/:id" },
  list: { method: "GET", path: "/v0/bases/:base/webhooks" },
  longestMs: 7 * dayMs,
  asked(call) {
    const owner = bearerOf(call);
    const resource = call.params["base"] ?? "";
    if (call.params["id"] !== undefined) return { owner, resource, address: "" };
    const fields = objectOf(call);
    const filters = object(object(object(fields["specification"])["options"])["filters"]);
    if (!Array.isArray(filters["dataTypes"])) throw refuse(422, "invalid", "The specification is not valid.");
    return { owner, resource, address: textIn(fields, "notificationUrl") };
  },
  named: idIn,
  ownerOf: bearerOf,
  created: (one) => json({ id: one.id, macSecretBase64: one.token, expirationTime: isoOf(one) }),
  renewed: (one) => json({ expirationTime: isoOf(one) }),
  listed: (all) =>
    json({
      webhooks: all.map((one) => ({ id: one.id, notificationUrl: one.address, expirationTime: isoOf(one) })),
    }),
};

const site = "/ex/jira/:site/rest/api/3/webhook";
const jira: SubscriptionStyle = {
  name: "jira",
  create: { method: "POST", path: site },
  renew: { method: "PUT", path: `${site}/refresh` },
  stop: { method: "DELETE", path: site },
  list: { method: "GET", path: site },
  longestMs: 30 * dayMs,
  asked(call) {
    const owner = bearerOf(call);
    if (call.method === "PUT") return { owner, resource: "", address: "" };
    const [first] = list(call, "webhooks").map(object);
    if (!Array.isArray(first?.["events"])) throw refuse(400, "invalid", "events are required.");
    return { owner, resource: textIn(first, "jqlFilter"), address: textIn(objectOf(call), "url") };
  },
  named(call) {
    const ids = list(call, "webhookIds");
    if (!ids.every((id) => typeof id === "number")) throw refuse(400, "invalid", "webhookIds must be numbers.");
    return ids.map(String);
  },
  ownerOf: bearerOf,
  created: (one) => json({ webhookRegistrationResult: [{ createdWebhookId: Number(one.id) }] }),
  renewed: (one) => json({ expirationDate: isoOf(one).replace("Z", "+0000") }),
  stopped: { status: 202 },
  listed: (all) =>
    json({
      values: all.map((one) => ({ id: Number(one.id), url: one.address, expirationDate: isoOf(one) })),
      isLast: true,
    }),
};

const zoho: SubscriptionStyle = {
  name: "zoho-crm",
  create: { method: "POST", path: "/crm/v8/actions/watch" },
  renew: { method: "PATCH", path: "/crm/v8/actions/watch" },
  stop: { method: "DELETE", path: "/crm/v8/actions/watch" },
  longestMs: 7 * dayMs,
  // The ID is the client's, so a lost creation is simply made again.
  repeats: true,
  asked(call) {
    const fields = object(list(call, "watch")[0]);
    const [token, id] = [textIn(fields, "token"), textIn(fields, "channel_id")];
    if (token.length > 50) throw refuse(400, "INVALID_DATA", "The token is too long.");
    if (!/^\d{1,18}$/.test(id)) throw refuse(400, "INVALID_DATA", "channel_id must be a number.");
    if (/\.|Z$/.test(textIn(fields, "channel_expiry"))) throw refuse(400, "INVALID_DATA", "channel_expiry is no time.");
    const [event] = Array.isArray(fields["events"]) ? fields["events"] : [];
    const address = textIn(fields, "notify_url");
    return {
      id,
      owner: bearerOf(call),
      resource: String(event),
      address,
      token,
      expiresAtMs: timeIn(fields, "channel_expiry"),
    };
  },
  named: (call) => (call.method === "DELETE" ? [call.query.get("channel_ids") ?? ""] : [zoho.asked(call).id ?? ""]),
  ownerOf: bearerOf,
  created: (one) => json(shownZoho(one), { status: 201 }),
  renewed: (one) => json(shownZoho(one)),
  stopped: json({ watch: [{ code: "SUCCESS" }] }),
};
const shownZoho = (one: Subscription) => ({
  watch: [
    {
      code: "SUCCESS",
      details: { events: [{ channel_id: one.id, channel_expiry: isoOf(one).replace("Z", "+00:00") }] },
    },
  ],
});

const asana: SubscriptionStyle = {
  name: "asana",
  create: { method: "POST", path: "/api/1.0/webhooks" },
  stop: { method: "DELETE", path: "/api/1.0/webhooks/:id" },
  list: { method: "GET", path: "/api/1.0/webhooks" },
  longestMs: undefined,
  verification: "handshake",
  asked(call) {
    const data = object(objectOf(call)["data"]);
    return { owner: bearerOf(call), resource: textIn(data, "resource"), address: textIn(data, "target") };
  },
  named: idIn,
  ownerOf: bearerOf,
  created: (one) => json({ data: { gid: one.id, active: true } }, { status: 201 }),
  stopped: json({ data: {} }),
  listed: (all) => json({ data: all.map((one) => ({ gid: one.id, target: one.address })) }),
};

const twitch: SubscriptionStyle = {
  name: "twitch",
  create: { method: "POST", path: "/helix/eventsub/subscriptions" },
  stop: { method: "DELETE", path: "/helix/eventsub/subscriptions" },
  list: { method: "GET", path: "/helix/eventsub/subscriptions" },
  longestMs: undefined,
  verification: "challenge",
  signed: signedByTwitch,
  asked(call) {
    const fields = objectOf(call);
    const transport = object(fields["transport"]);
    const secret = textIn(transport, "secret");
    if (secret.length < 10 || secret.length > 100) throw refuse(400, "invalid", "The secret has a wrong length.");
    const user = textIn(object(fields["condition"]), "broadcaster_user_id");
    return {
      owner: "",
      resource: `${textIn(fields, "type")} ${user}`,
      address: textIn(transport, "callback"),
      token: secret,
    };
  },
  named: ({ query }) => [query.get("id") ?? ""],
  ownerOf: () => "",
  created: (one) => json({ data: [{ id: one.id, status: "webhook_callback_verification_pending" }] }, { status: 202 }),
  listed: (all) => json({ data: all.map((one) => ({ id: one.id, transport: { callback: one.address } })) }),
};

export function signedByTwitch(
  { token }: Subscription,
  body: string,
  nowMs: number,
  type = "webhook_callback_verification",
) {
  const [message, at] = [randomUUID(), new Date(nowMs).toISOString()];
  const signature = createHmac("sha256", token).update(`${message}${at}${body}`).digest("hex");
  return {
    "twitch-eventsub-message-id": message,
    "twitch-eventsub-message-timestamp": at,
    "twitch-eventsub-message-type": type,
    "twitch-eventsub-message-signature": `sha256=${signature}`,
  };
}

const strava: SubscriptionStyle = {
  name: "strava",
  create: { method: "POST", path: "/api/v3/push_subscriptions" },
  stop: { method: "DELETE", path: "/api/v3/push_subscriptions/:id" },
  list: { method: "GET", path: "/api/v3/push_subscriptions" },
  longestMs: undefined,
  verification: "token",
  most: 1,
  asked(call) {
    const fields = Object.fromEntries(formOf(call));
    return {
      owner: appOf(fields),
      resource: "",
      address: textIn(fields, "callback_url"),
      token: textIn(fields, "verify_token"),
    };
  },
  named: idIn,
  ownerOf: ({ query }) => appOf(Object.fromEntries(query)),
  created: (one) => json({ id: Number(one.id) }, { status: 201 }),
  listed: (all) => json(all.map((one) => ({ id: Number(one.id), callback_url: one.address }))),
};

function appOf(fields: Readonly<Record<string, string>>): string {
  if (textIn(fields, "client_secret") !== "sandbox-secret") throw refuse(401, "invalid", "Authorization Error");
  return textIn(fields, "client_id");
}

export const styles: readonly SubscriptionStyle[] = [
  {
    ...channel("google-drive", {
      path: "/drive/v3/files/:resource/watch",
      stop: "/drive/v3/channels/stop",
      longestMs: 7 * dayMs,
    }),
    further: [{ method: "POST", path: "/drive/v3/changes/watch" }],
    position: {
      method: "GET",
      path: "/drive/v3/changes/startPageToken",
      answer: () => json({ startPageToken: "p-1" }),
    },
  },
  channel("google", {
    path: "/admin/directory/v1/users/watch",
    stop: "/admin/directory_v1/channels/stop",
    longestMs: 6 * hourMs,
    ttl: true,
  }),
  mailbox,
  graph,
  airtable,
  jira,
  zoho,
  asana,
  twitch,
  strava,
  hub,
];
