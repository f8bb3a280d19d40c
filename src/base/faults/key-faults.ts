import type { FaultCode } from "../fault.ts";
import { type FaultEntry, faultSubjects } from "./entry.ts";

const [keys] = faultSubjects;

/** Explains the error codes about keys, sessions and permissions. */
export const keyFaults = {
  missing_auth_header: {
    subject: keys,
    meaning: "The request has no key, or a page for end users has no connect session token.",
    action:
      "Send `Authorization: Bearer <key>`. In a browser, send the token of a connect session that your server created.",
    example: "send a key: Authorization: Bearer <key>",
  },
  malformed_auth_header: {
    subject: keys,
    meaning: "The `Authorization` header is not in a form that Latchkey accepts.",
    action: "Send `Bearer`, one space and the key. The proxy also accepts `token <key>` and Basic with the key.",
    example: "the Authorization header must be: Bearer <key>",
  },
  unknown_key: {
    subject: keys,
    meaning: "No key has this value, or the key was revoked or has expired.",
    action:
      "List keys with `latchkey keys list` and create one with `latchkey keys create -e <environment>`. Generated keys are in the files `secret-key` and `admin-key` in the folder of the store.",
    example: "the key is not known",
  },
  proxy_key_required: {
    subject: keys,
    meaning: "A program uses the forward proxy without a key, or with a key that is not valid.",
    action:
      "Put the key into the proxy's address: `HTTPS_PROXY=http://latchkey:<key>@127.0.0.1:3008`. `latchkey run` sets it for one command.",
    example: "send a key with the proxy's address: http://latchkey:<key>@host:port",
  },
  identity_refused: {
    subject: keys,
    meaning:
      "A caller has proven no identity: its token or client certificate is not valid, or no rule of `identities` names it.",
    action:
      "The message says what is wrong: issuer, audience, time, key, signature or rule. Compare it with `identities` of the configuration file, for an edge with `edges` of the brokers. `latchkey identities test <file>` explains a token.",
    example: "the service-account token is for another audience than `identities.issuers.0`",
  },
  identity_not_allowed: {
    subject: keys,
    meaning: "The service account or the certificate of an edge is valid, but no rule of the brokers names it.",
    action:
      "Add it to `edges.service_accounts.allow` or `edges.certificates` of the brokers' configuration file, with its environments.",
    example: "no rule allows system:serviceaccount:shop:checkout to follow as an edge",
  },
  identity_keys_unavailable: {
    subject: keys,
    meaning: "The keys that verify tokens cannot be fetched, and the key of this token is not known from before.",
    action:
      "Read the log for the reason. Check the issuer in `identities.issuers` or `edges.service_accounts`: issuer, `jwks_url`, `ca` and `token_file`, and the network policy towards it.",
    example: "the keys of the token's issuer cannot be fetched now; try again later",
  },
  approval_required: {
    subject: keys,
    meaning:
      "A `hold` policy wants a person to approve the request first. It was not sent, although the status is 202. `Latchkey-Approval` names the approval.",
    action:
      "Send the same request again with `Latchkey-Approval: <id>` until it was answered, or wait on the connection with `Prefer: wait=300`. `GET /approvals/:id` shows the state. A person answers with `latchkey approvals approve <id>`, or in the dashboard.",
    example:
      'the request was not sent: "payouts" holds it until a person approves it; send the same request again with the header Latchkey-Approval: 3q2-7wAAB0CqfY1mXk9Z5g',
  },
  approval_denied: {
    subject: keys,
    meaning: "The request was denied, or it was not approved in time.",
    action: "Ask the person who answers for the reason. Do not repeat the request.",
    example: "the approval 3q2-7wAAB0CqfY1mXk9Z5g was denied: ask Ada first",
  },
  self_approval: {
    subject: keys,
    meaning: "A key answers a request of its own, or of an access session that it has created.",
    action: "Answer with the key of another person or service, which has the scope `approvals:decide`.",
    example: "a request is not answered by its own caller: send another key",
  },
  unknown_session: {
    subject: keys,
    meaning: "The connect session does not exist, was used, or is older than 30 minutes.",
    action: "Create another session with `POST /connect/sessions`, and give the user its new link.",
    example: "the connect session is unknown, used or expired; create another",
  },
  signed_out: {
    subject: keys,
    meaning:
      "The browser session of the dashboard has ended: it was revoked, its key was revoked, or it was not used for 8 hours. Or a sign-in link was used before, or is older than a minute.",
    action: "Sign in again at `/ui/`, or with a new link from `latchkey open`.",
    example: "the browser session has ended, or is not complete; sign in again",
  },
  unproven_webhook: {
    subject: keys,
    meaning: "A webhook has no valid proof of its sender: the signature, token or age is wrong.",
    action:
      "Set the integration's webhook secret to the provider's current one. Check that no proxy changes the body. Check the clock of Latchkey's machine.",
    example: "the sender of the webhook could not be verified",
  },
  missing_scope: {
    subject: keys,
    meaning: "The key is valid, but may not do this. Control keys may not use the proxy and most JSON routes.",
    action:
      "Use a key that has the scope in the message, or create one with `latchkey keys create --scope <scope>`. For the proxy, use the key of an environment.",
    example: 'the key "app" does not have the scope connections:write',
  },
  not_in_session: {
    subject: keys,
    meaning:
      "The request is outside the limits of its access session or its key: another connection, method, host, path or tool, or something that limited callers may never do.",
    action:
      "Send a request within the limits, or create a session or a key with other limits. Under `paths`, a path must have no empty segments, no `;` and no encoded `/`, `.` or `%`.",
    example: "the limits of this access session do not include the connection",
  },
  denied_by_policy: {
    subject: keys,
    meaning:
      "A policy of the environment refuses the request, no policy allows it, or a condition could not be evaluated for it.",
    action:
      "The message names the policies. `latchkey policies explain` shows what each of them says about a request. Send another request, or have the policy changed.",
    example: 'the policy "no-deletes" (repositories are deleted by people) does not allow this request',
  },
  key_required: {
    subject: keys,
    meaning:
      "A browser session of the dashboard asked for credentials or secrets, or for a change of where credentials are sent. A session alone never gets them.",
    action:
      "Send this call with the key in `Authorization: Bearer <key>`. The dashboard asks for the key, and uses it for that call only.",
    example: "credentials and other secrets are not shown to a browser session: send the key itself with this call",
  },
  other_browser: {
    subject: keys,
    meaning: "The connect session began in another browser, or this browser has lost its cookies.",
    action: "Continue in the first browser, or create another connect session. Allow cookies for the public URL.",
    example: "the connect session is in use in another browser, or this browser has lost its cookies",
  },
  origin_not_allowed: {
    subject: keys,
    meaning: "A web page of another origin called a route that only allowed origins may use.",
    action:
      "Add the page's origin to `allowed_origins` of the environment, or to `LATCHKEY_ALLOWED_ORIGINS`. Call other routes from your server.",
    example: "requests from that web page are not allowed",
  },
  host_not_allowed: {
    subject: keys,
    meaning: "The connection's credentials may not be sent to the host of this request.",
    action:
      "Call a host of the provider. To allow another one, list it in `hosts` of the integration. Private addresses need `LATCHKEY_ALLOW_PRIVATE`.",
    example: "this connection's credentials may not be sent to that host",
  },
  misdirected_request: {
    subject: keys,
    meaning: "The `Host` header names a host that this listener does not serve.",
    action: "Call Latchkey by an allowed name, or add the name to `LATCHKEY_ALLOWED_HOSTS`.",
    example: "this listener does not serve the host of the Host header; add it to LATCHKEY_ALLOWED_HOSTS",
  },
} as const satisfies Partial<Record<FaultCode, FaultEntry>>;
