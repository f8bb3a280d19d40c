import type { TLSSocket } from "node:tls";

/**
 * Returns the subject alternative names in Node's text of a certificate: `DNS:a.example, URI:spiffe://b`. Node writes a
 * value with a comma or a quote as a JSON string, which must not be split: it could imitate another name.
 */
export function alternativeNamesOf(text: string): readonly string[] {
  const names: string[] = [];
  for (const [, kind = "", value = ""] of text.matchAll(/(?:^|, )([A-Za-z ]+):("(?:[^"\\]|\\.)*"|[^",]*)/gy)) {
    names.push(`${kind}:${value.startsWith('"') ? unquoted(value) : value}`);
  }
  return names;
}

/** Returns the names in the client certificate of a socket that its listener has verified. */
export function verifiedNamesOf(socket: Partial<TLSSocket>): readonly string[] {
  if (socket.authorized !== true) return [];
  const { subject, subjectaltname = "" } = socket.getPeerCertificate?.() ?? {};
  const { CN } = (subject ?? {}) as { readonly CN?: string | readonly string[] };
  // Several common names identify no single client.
  return [...alternativeNamesOf(subjectaltname), ...(typeof CN === "string" ? [`CN:${CN}`] : [])];
}

function unquoted(value: string): string {
  try {
    return JSON.parse(value) as string;
  } catch {
    return "";
  }
}
