import { hash } from "node:crypto";

interface ForwardKey {
  readonly environment: string;
  readonly integration: string;
  /** The provider's own id of the message, or that of the receipt. */
  readonly message: string;
  /** Empty: it concerns none. */
  readonly connectionId: string;
  /** Which of an environment's two addresses it goes to. */
  readonly isSecondary: boolean;
}

/**
 * The `webhook-id`: the same for every attempt, for a replay, and for a provider's repeat of the message, so that an
 * application can tell what it has seen.
 */
export function forwardId({ environment, integration, message, connectionId, isSecondary }: ForwardKey): string {
  const parts = [environment, integration, message, connectionId, ...(isSecondary ? ["secondary"] : [])];
  // Lengths go along: a message's id is a provider's, and may hold anything.
  const text = parts.map((part) => `${part.length}:${part}`).join("");
  return `msg_${hash("sha256", text, "base64url").slice(0, 32)}`;
}
