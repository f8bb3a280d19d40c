import type { JsonObject } from "@bufbuild/protobuf";
import type { OAuth1Rules } from "../../gen/latchkey/v1/provider_pb.ts";
import { requireHeaderValue } from "../header-value.ts";
import { percentEncode } from "../percent.ts";
import { CannotAttach, type Client, type NameValue, type RequestDraft, type SigningAttachment } from "../scheme.ts";
import { fillText } from "../template.ts";
import { createSigner, type SignatureMethod } from "./signature.ts";

interface SignedRequests {
  readonly rules: OAuth1Rules;
  /** Used if the rules name no method. */
  readonly defaultMethod: SignatureMethod;
  readonly client: Client | undefined;
  readonly token: string;
  readonly tokenSecret: string;
  readonly connectionConfig: JsonObject;
}

/** Signs requests on behalf of an end user (RFC 5849, section 3). */
export function signedRequests(options: SignedRequests): SigningAttachment {
  const { rules, defaultMethod, client, token, tokenSecret, connectionConfig } = options;
  if (client === undefined || client.id === "") throw new CannotAttach("the integration has no consumer key");
  if (token === "") throw new CannotAttach("the token is missing");
  const method = rules.signatureMethod === "" ? defaultMethod : requireMethod(rules.signatureMethod);
  const signatureOf = createSigner({ method, client, tokenSecret });
  const realm = realmOf(fillText(rules.realm, { connectionConfig }));

  const parametersOf = ({ nowMs, nonce }: RequestDraft): NameValue[] => [
    ["oauth_consumer_key", client.id],
    ["oauth_token", token],
    ["oauth_signature_method", method],
    ["oauth_timestamp", String(Math.floor(nowMs / 1000))],
    ["oauth_nonce", nonce],
    ["oauth_version", "1.0"],
  ];
  return {
    kind: "signing",
    needs: method === "PLAINTEXT" ? "nothing" : "form",
    headerNames: ["authorization"],
    sign(draft) {
      const parameters = parametersOf(draft);
      const signed: NameValue[] = [...parameters, ["oauth_signature", signatureOf(draft, parameters)]];
      return { headers: [["authorization", `OAuth ${[...realm, ...signed.map(written)].join(", ")}`]] };
    },
  };
}

interface SignedLeg {
  readonly rules: OAuth1Rules;
  readonly defaultMethod: SignatureMethod;
  readonly client: Client;
  /** Undefined for the first leg. */
  readonly temporary: { readonly token: string; readonly secret: string } | undefined;
  readonly connectionConfig: JsonObject;
  /** `oauth_callback` for the first leg, `oauth_verifier` for the last. */
  readonly parameter: NameValue;
}

/** Returns the authorization header of a leg of the token exchange (RFC 5849, sections 2.1 and 2.3). */
export function signLeg(leg: SignedLeg, draft: RequestDraft): string {
  const { rules, defaultMethod, client, temporary, connectionConfig, parameter } = leg;
  if (client.id === "") throw new CannotAttach("the integration has no consumer key");
  const method = rules.signatureMethod === "" ? defaultMethod : requireMethod(rules.signatureMethod);
  const signatureOf = createSigner({ method, client, tokenSecret: temporary?.secret ?? "" });
  const parameters: NameValue[] = [
    ["oauth_consumer_key", client.id],
    ...(temporary === undefined ? [] : [["oauth_token", temporary.token] as const]),
    ["oauth_signature_method", method],
    ["oauth_timestamp", String(Math.floor(draft.nowMs / 1000))],
    ["oauth_nonce", draft.nonce],
    ["oauth_version", "1.0"],
    parameter,
  ];
  const signed: NameValue[] = [...parameters, ["oauth_signature", signatureOf(draft, parameters)]];
  return `OAuth ${[...realmOf(fillText(rules.realm, { connectionConfig })), ...signed.map(written)].join(", ")}`;
}

/** Section 3.5.1. */
const written = ([name, value]: NameValue) => `${percentEncode(name)}="${percentEncode(value)}"`;

/** A quoted string, not percent-encoded like the other parameters (section 3.5.1; RFC 9110, section 5.6.4). */
function realmOf(realm: string): string[] {
  if (realm === "") return [];
  return [`realm="${requireHeaderValue(realm, "the realm").replace(/["\\]/g, "\\$&")}"`];
}

const methods: readonly SignatureMethod[] = ["HMAC-SHA1", "HMAC-SHA256", "RSA-SHA1", "PLAINTEXT"];

function requireMethod(name: string): SignatureMethod {
  const method = methods.find((one) => one === name);
  if (method === undefined) throw new CannotAttach(`the provider's signature method ${name} is not supported`);
  return method;
}
