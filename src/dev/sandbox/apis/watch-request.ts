import { isLoopback } from "../auth/clients.ts";
import type { BehaviourSettings } from "../behaviour.ts";
import { type Call, objectOf, refuse } from "../call.ts";

/** The body of a call that creates a channel. */
export interface WatchRequest {
  readonly id: string;
  readonly address: string;
  readonly token: string | undefined;
  /** Milliseconds since 1970. */
  readonly expiration: number;
}

interface WatchLimits {
  readonly now: number;
  readonly settings: BehaviourSettings;
}

const maxIdLength = 64;

/** Throws 400 naming the first field that is wrong. */
export function readWatchRequest(call: Call, limits: WatchLimits): WatchRequest {
  const body = objectOf(call);
  const { id, address, token } = body;
  if (typeof id !== "string" || !/^[A-Za-z0-9\-_+/=]+$/.test(id) || id.length > maxIdLength) {
    throw refuse(
      400,
      "channelIdInvalid",
      `Channel ids are 1 to ${maxIdLength} of the characters A-Z a-z 0-9 - _ + / =`,
    );
  }
  if (body["type"] !== "web_hook" && body["type"] !== "webhook") {
    throw refuse(400, "unknownChannelType", "The type must be web_hook.");
  }
  if (typeof address !== "string" || !isAcceptedAddress(address)) {
    throw refuse(400, "push.webhookUrlNotHttps", "WebHook callback must be HTTPS");
  }
  if (token !== undefined && (typeof token !== "string" || !/^[\x20-\x7e]{0,256}$/.test(token))) {
    throw refuse(400, "invalid", "Invalid value for token.");
  }
  return { id, address, token, expiration: expirationOf(body["expiration"], limits) };
}

/** Accepts HTTPS, as a provider does, and plain HTTP on this machine. */
function isAcceptedAddress(address: string): boolean {
  if (!URL.canParse(address)) return false;
  const url = new URL(address);
  return url.protocol === "https:" || isLoopback(url);
}

function expirationOf(requested: unknown, { now, settings }: WatchLimits): number {
  const { channelLifetimeS, maxChannelLifetimeS } = settings;
  if (requested === undefined || requested === null) return now + channelLifetimeS * 1_000;
  // A number or a text: JSON's numbers do not hold every integer of 64 bits.
  const isNumeric = typeof requested === "number" || (typeof requested === "string" && /^\d{1,19}$/.test(requested));
  const value = isNumeric ? Number(requested) : Number.NaN;
  if (!Number.isSafeInteger(value) || value <= now) {
    throw refuse(400, "channelExpirationInvalid", "expiration must be milliseconds since 1970, and in the future.");
  }
  return Math.min(value, now + maxChannelLifetimeS * 1_000);
}
