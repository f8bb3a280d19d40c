import { requireCertificate } from "./client-certificate.ts";
import { place, placedNames } from "./placement.ts";
import type { AuthScheme } from "./scheme.ts";

/** An access token of the application's own (RFC 6750). */
export const oauth2Client: AuthScheme<"oauth2Client"> = {
  attach({ credentials, rules }) {
    const placed = place({ what: "the access token", value: credentials.token }, rules.placement);
    const { clientCertificate: certificate, clientPrivateKey: privateKey } = credentials;
    if (certificate === "" || privateKey === "") return placed;
    // RFC 8705, section 3: a token that was got with a certificate may be good on no connection without it.
    return { ...placed, clientCertificate: requireCertificate({ certificate, privateKey }) };
  },
  names: ({ placement }) => placedNames(placement),
};
