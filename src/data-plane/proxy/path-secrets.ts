import type { Attachment } from "../../auth/attachment.ts";
import { attachedSecrets } from "../../core/secrets/attached-secrets.ts";

/** Returns the path without known secrets: callers put keys into paths too. */
export function withoutSecrets(path: string, secrets: readonly string[]): string {
  return secrets.reduce(
    (shown, secret) => (secret === "" || !shown.includes(secret) ? shown : shown.replaceAll(secret, "***")),
    path,
  );
}

/** Cached with an attachment, which lives as long as its connection is in memory. */
const known = new WeakMap<Attachment, readonly string[]>();

/** Returns the secrets in what is attached to a request. */
export function secretsOf(attachment: Attachment): readonly string[] {
  const found = known.get(attachment);
  if (found !== undefined) return found;
  const made = attachedSecrets(attachment);
  known.set(attachment, made);
  return made;
}

const noSecret = 1_000_000;

/** Returns the length below which a path holds none of them. Keeps no text of them. */
export const shortestSecretIn = (attachment: Attachment): number =>
  attachedSecrets(attachment).reduce((shortest, { length }) => Math.min(shortest, length), noSecret);
