import { type Call, formOf, json, objectOf, refuse } from "../call.ts";
import type { Subscription, SubscriptionStyle } from "./subscription-style.ts";

/** Returns a text of a request; throws 400 without one. */
export function textIn(fields: Readonly<Record<string, unknown>>, name: string): string {
  const value = fields[name];
  if (typeof value !== "string" || value === "") throw refuse(400, "invalid", `${name} is required.`);
  return value;
}

/** Returns the token that a request carries; throws 401 without one. */
export function bearerOf({ headers }: Call): string {
  const [, token] = /^(?:bearer|zoho-oauthtoken) +(\S+)$/i.exec(headers.authorization ?? "") ?? [];
  if (token === undefined) throw refuse(401, "required", "Login Required.");
  return token;
}

/** Returns a time of RFC 3339 in milliseconds; throws 400 for any other text. */
export function timeIn(fields: Readonly<Record<string, unknown>>, name: string): number {
  const atMs = Date.parse(textIn(fields, name));
  if (Number.isNaN(atMs)) throw refuse(400, "invalid", `${name} must be a time.`);
  return atMs;
}

const dayMs = 86_400_000;
const isoOf = ({ expiresAtMs }: Subscription) => new Date(expiresAtMs).toISOString();

/** Extended in place; the address is verified while the creation is open. */
const renewable: SubscriptionStyle = {
  name: "renewable",
  create: { method: "POST", path: "/subscriptions" },
  renew: { method: "PATCH", path: "/subscriptions/:id" },
  reauthorize: { method: "POST", path: "/subscriptions/:id/reauthorize" },
  stop: { method: "DELETE", path: "/subscriptions/:id" },
  list: { method: "GET", path: "/subscriptions" },
  longestMs: 3 * dayMs,
  verification: "echo",
  asked(call) {
    const fields = objectOf(call);
    const expiresAtMs = timeIn(fields, "expires");
    if (call.method === "PATCH") return { owner: bearerOf(call), resource: "", address: "", expiresAtMs };
    const token = textIn(fields, "token");
    return {
      owner: bearerOf(call),
      resource: textIn(fields, "resource"),
      address: textIn(fields, "address"),
      token,
      expiresAtMs,
    };
  },
  named: ({ params }) => [params["id"] ?? ""],
  ownerOf: bearerOf,
  created: (one) => json({ id: one.id, expires: isoOf(one) }, { status: 201 }),
  renewed: (one) => json({ id: one.id, expires: isoOf(one) }),
  listed: (all) => json({ items: all.map((one) => ({ id: one.id, address: one.address, expires: isoOf(one) })) }),
};

/** WebSub: form bodies, confirmed by the hub afterwards. */
export const hub: SubscriptionStyle = {
  name: "hub",
  create: { method: "POST", path: "/subscribe" },
  stop: { method: "POST", path: "/unsubscribe" },
  // Both requests go to the same place.
  isStop: (call) => formOf(call).get("hub.mode") === "unsubscribe",
  longestMs: 10 * dayMs,
  verification: "intent",
  repeats: true,
  asked(call) {
    const fields = Object.fromEntries(formOf(call));
    const address = textIn(fields, "hub.callback");
    const lease = Number(fields["hub.lease_seconds"] ?? 0);
    return {
      id: `${address} ${textIn(fields, "hub.topic")}`,
      owner: "",
      resource: textIn(fields, "hub.topic"),
      address,
      token: textIn(fields, "hub.secret"),
      lifeMs: lease > 0 ? lease * 1_000 : undefined,
    };
  },
  named(call) {
    const fields = Object.fromEntries(formOf(call));
    return [`${textIn(fields, "hub.callback")} ${textIn(fields, "hub.topic")}`];
  },
  ownerOf: () => "",
  created: () => ({ status: 202 }),
  stopped: { status: 202 },
};

/** A kind of each protocol. */
export const neutralStyles: readonly SubscriptionStyle[] = [renewable, hub];
