import { createHmac, randomBytes } from "node:crypto";
import { isSame } from "../../broker/connect/callback.ts";

/**
 * Names a page that waits on a WebSocket. The second half proves two things to any process of the store: the browser
 * with this secret opened the socket, and a page of this origin asked it to. Others can only guess all of it.
 */
export function newListenerId(secret: string, origin: string): string {
  // 64 random bits in 11 characters.
  const random = randomBytes(8).toString("base64url");
  return `${random}${proofOf({ random, secret, origin })}`;
}

/** What a page is given to name itself by. */
export const isListener = (text: string): boolean => /^[A-Za-z0-9_-]{22}$/.test(text);

/** Whether the browser with this secret opened the socket from a page of one of the origins. */
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
