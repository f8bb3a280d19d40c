import { hash } from "node:crypto";

interface ForwardKey {
  readonly environment: string;
  readonly integration: string;
  /** The provider's id of the message, or the id of the receipt. */
  readonly message: string;
  /** Empty if the forward concerns no connection. */
  readonly connectionId: string;
  /** Whether the forward goes to the second of the environment's two addresses. */
  readonly isSecondary: boolean;
}

/**
 * Returns the `webhook-id`: the same for every attempt, for a replay, and for a provider's repeat of the message, so
 * that an application can detect duplicates.
 */
export function forwardId({ environment, integration, message, connectionId, isSecondary }: ForwardKey): string {
  const parts = [environment, integration, message, connectionId, ...(isSecondary ? ["secondary"] : [])];
  // Include the lengths: a provider's message id may contain any character.
  const text = parts.map((part) => `${part.length}:${part}`).join("");
  return `msg_${hash("sha256", text, "base64url").slice(0, 32)}`;
}
