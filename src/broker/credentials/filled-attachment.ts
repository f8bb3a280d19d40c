import type { Attachment, NameValue, RequestDraft } from "../../auth/attachment.ts";
import type { FilledFields } from "../../core/outgoing/filled-fields.ts";
import { credentialFieldNames } from "../../core/outgoing/outgoing.ts";

/** Adds headers and parameters with a connection's values to what its requests carry. Credentials take precedence. */
export function filledAttachment(attachment: Attachment, filled: FilledFields): Attachment {
  const own = credentialFieldNames(attachment);
  const headers = filled.headers.filter(([name]) => !own.has(name.toLowerCase()));
  const ownQuery = attachment.query ?? [];
  const query = filled.query.filter(([name]) => ownQuery.every(([one]) => one !== name));
  const beside = {
    query: [...ownQuery, ...query],
    known: [...(attachment.known ?? []), ...filled.known],
    shown: [...(attachment.shown ?? []), ...filled.secrets],
  };
  if (attachment.kind === "fixed") return { ...attachment, ...beside, headers: [...attachment.headers, ...headers] };
  const lower = headers.map(([name, value]): NameValue => [name.toLowerCase(), value]);
  return {
    ...attachment,
    ...beside,
    headerNames: [...attachment.headerNames, ...lower.map(([name]) => name)],
    sign(draft: RequestDraft) {
      const signed = attachment.sign({ ...draft, headers: [...draft.headers, ...lower] });
      return { headers: [...headers, ...signed.headers] };
    },
  };
}
