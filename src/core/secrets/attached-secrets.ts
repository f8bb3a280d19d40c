import type { Attachment } from "../../auth/attachment.ts";
import { minSecretLength } from "./secret-search.ts";

/**
 * The secrets in what a request carries of its credentials, as they are sent and without the scheme before them. Some
 * stand in no credentials, such as a token that was minted. Longest first.
 */
export function attachedSecrets(attachment: Attachment): readonly string[] {
  const { shown = [], known = [] } = attachment;
  const placed =
    attachment.kind === "fixed" ? [...attachment.headers, ...attachment.query].map(([, value]) => value) : [];
  const sent = [...placed.filter((value) => !known.includes(value)), ...shown];
  const values = sent.flatMap((value) => {
    const bare = value.replace(/^[A-Za-z]+ +/, "");
    // As in `Token token=…`.
    const alone = bare.replace(/^[\w-]+=/, "");
    return [value, bare, alone, encodeURIComponent(bare), encodeURIComponent(alone)];
  });
  const long = [...new Set(values)].filter((value) => value.length >= minSecretLength);
  return long.toSorted((a, b) => b.length - a.length);
}
