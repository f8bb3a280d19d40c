import { createHmac, randomBytes } from "node:crypto";
import { isSame } from "../../broker/connect/authorize/callback.ts";

/**
 * Creates the id of a page that waits on a WebSocket. The second half proves two facts to every process of the store:
 * the browser with this secret opened the socket, and a page of this origin requested the socket. Other parties can
 * only guess the whole id.
 */
export function newListenerId(secret: string, origin: string): string {
  // 64 random bits in 11 characters.
  const random = randomBytes(8).toString("base64url");
  return `${random}${proofOf({ random, secret, origin })}`;
}

/** Returns whether the text has the form of a listener id. */
export const isListener = (text: string): boolean => /^[A-Za-z0-9_-]{22}$/.test(text);

/** Returns whether the browser with this secret opened the socket from a page of one of the origins. */
export function isVouchedFor(
  listener: string,
  { secret, origins }: { readonly secret: string | undefined; readonly origins: readonly string[] },
): boolean {
  if (secret === undefined || !isListener(listener)) return false;
  const random = listener.slice(0, 11);
  return origins.some((origin) => isSame(listener.slice(11), proofOf({ random, secret, origin })));
}

const proofOf = ({ random, secret, origin }: { random: string; secret: string; origin: string }): string =>
  createHmac("sha256", secret).update(`${random} ${origin}`).digest("base64url").slice(0, 11);
