import { requireCertificate } from "../client-certificate.ts";
import { place, placedNames } from "../placement.ts";
import type { AuthScheme } from "../scheme.ts";
import { boundToken, dpopHeaderNames } from "./dpop.ts";

/** The application's own access token: a bearer token (RFC 6750), or bound to a key (RFC 9449). */
export const oauth2Client: AuthScheme<"oauth2Client"> = {
  attach({ credentials, rules }) {
    const { token, dpopKey, clientCertificate: certificate, clientPrivateKey: privateKey } = credentials;
    const attachment =
      dpopKey === ""
        ? place({ what: "the access token", value: token }, rules.placement)
        : boundToken({ token, key: dpopKey });
    if (certificate === "" || privateKey === "") return attachment;
    // RFC 8705, section 3: a token obtained with a certificate may be valid only on connections with the certificate.
    return { ...attachment, clientCertificate: requireCertificate({ certificate, privateKey }) };
  },
  names: ({ placement, dpop }) => (dpop ? { headers: dpopHeaderNames, query: [] } : placedNames(placement)),
};
