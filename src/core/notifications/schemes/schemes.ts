import type { SignatureRules } from "../../../gen/latchkey/v1/provider_pb.ts";
import { type SignatureScheme, schemeOf } from "../../../providers/signature-scheme.ts";
import { basic } from "./basic.ts";
import { channelToken } from "./channel-token.ts";
import { hmac } from "./hmac.ts";
import { publicKey } from "./public-key.ts";
import type { VerificationScheme } from "./scheme.ts";
import { sharedJwt } from "./shared-jwt.ts";
import { sharedToken } from "./shared-token.ts";
import { signedJwt } from "./signed-jwt.ts";
import { standardWebhooks } from "./standard-webhooks.ts";

/** Every scheme that a provider's rules can name. A scheme that is missing here does not compile. */
const schemes: { readonly [S in SignatureScheme]: VerificationScheme } = {
  hmac,
  standard_webhooks: standardWebhooks,
  shared_token: sharedToken,
  channel_token: channelToken,
  jwt: signedJwt,
  jwt_secret: sharedJwt,
  public_key: publicKey,
  basic,
};

/**
 * Returns the scheme of a provider's rules; `none` if it has no scheme; undefined for a name that this version does not
 * know.
 */
export function verificationOf(rules: SignatureRules | undefined): VerificationScheme | "none" | undefined {
  const scheme = schemeOf(rules);
  return scheme === undefined || scheme === "none" ? scheme : schemes[scheme];
}
