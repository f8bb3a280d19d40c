import type { FaultCode } from "../fault.ts";
import { type FaultEntry, faultSubjects } from "./entry.ts";

const [keys, request, , , , , own] = faultSubjects;

/** Explains the error codes of requests that act on behalf of users. */
export const subjectFaults = {
  subject_token_required: {
    subject: request,
    meaning: "The connection acts on behalf of users, and the request brings no token of a user.",
    action: "Send the token of the user in the header `Latchkey-Subject-Token`. Latchkey never forwards it.",
    example: "this connection acts for a user: send the user's token in the header Latchkey-Subject-Token",
  },
  subject_token_refused: {
    subject: keys,
    meaning:
      "The token in `Latchkey-Subject-Token` proves no user: its signature, issuer, audience, time or type is wrong.",
    action:
      "The message says what is wrong. Send a current token of the user. Compare it with `identity_provider` and `subject_audience` of the provider's description.",
    example: "the user's token has expired",
  },
  on_behalf_refused: {
    subject: keys,
    meaning:
      "The authorization server or the identity provider gives no access token for this user, or for this token.",
    action: "Read the code in the message. Let the user sign in again, or ask who administers the server for access.",
    example: "the authorization server refuses this user or token (invalid_grant)",
  },
  exchange_unavailable: {
    subject: own,
    meaning: "The token of a user could not be exchanged now: the authorization server did not give a usable answer.",
    action: "Try again after `Retry-After`. The log has the reason.",
    example: "no access token could be obtained for the user (closed)",
  },
} as const satisfies Partial<Record<FaultCode, FaultEntry>>;
