import { randomBytes } from "node:crypto";
import type { Attachment } from "../../auth/attachment.ts";
import { isNonce, isNonceWanted } from "../../auth/oauth2/dpop.ts";
import { createLateCache } from "../../base/caches/late-cache.ts";
import { lowerCase } from "../../base/http/field-name.ts";
import type { LiveConnection } from "../../broker/credentials/live-connections.ts";

/** Nonces that providers require in the next DPoP proof (RFC 9449, section 8.2), by origin and connection. */
export interface ProviderNonces {
  /** Returns the last nonce; undefined: none has come, or none is needed. */
  nextFor(call: NonceRequest): string | undefined;
  /** Stores the nonce of a response. Returns true if the provider only refused for lack of that nonce. */
  noteResponse(call: NonceRequest, answer: NonceAnswer): boolean;
}

interface NonceRequest {
  readonly attachment: Attachment;
  readonly live: LiveConnection;
  readonly origin: { readonly scheme: string };
  readonly host: string;
}

interface NonceAnswer {
  readonly status: number;
  /** Name, value, name, value. */
  readonly fields: readonly string[];
}

/** An evicted nonce costs one more request. */
const mostNonces = 10_000;

export function createProviderNonces(): ProviderNonces {
  const nonces = createLateCache<string>({ max: mostNonces });
  return {
    nextFor: (call) => (nonceHeaderOf(call) === undefined ? undefined : nonces.get(keyOf(call))),
    noteResponse(call, { status, fields }) {
      const name = nonceHeaderOf(call);
      if (name === undefined) return false;
      const [nonce] = valuesOf(fields, name);
      if (nonce === undefined || !isNonce(nonce)) return false;
      nonces.set(keyOf(call), nonce);
      return status === 401 && valuesOf(fields, "www-authenticate").some(isNonceWanted);
    },
  };
}

const nonceHeaderOf = ({ attachment }: NonceRequest): string | undefined =>
  attachment.kind === "signing" ? attachment.nonceHeader : undefined;

/** No name in Latchkey, and no host, contains a NUL. */
function keyOf({ live, origin, host }: NonceRequest): string {
  const { environment = "", integration = "", id = "" } = live.connection.ref ?? {};
  return [environment, integration, id, origin.scheme, host].join("\0");
}

const valuesOf = (fields: readonly string[], name: string): string[] =>
  fields.filter((_, i) => i % 2 === 1 && lowerCase(fields[i - 1] ?? "") === name);

/** Returns a nonce of our own, for a signed request. */
export const newNonce = (): string => randomBytes(16).toString("hex");
