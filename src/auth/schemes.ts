import { apiKey } from "./api-key.ts";
import { app } from "./app.ts";
import { awsSigv4 } from "./aws-sigv4.ts";
import { basic } from "./basic.ts";
import { clientCertificate } from "./client-certificate.ts";
import { jwt } from "./jwt/jwt.ts";
import { none } from "./none.ts";
import { oauth1 } from "./oauth1/oauth1.ts";
import { oauth2Client } from "./oauth2/client-credentials.ts";
import { oauth2 } from "./oauth2/oauth2.ts";
import { onBehalf } from "./on-behalf.ts";
import type { AuthScheme, SchemeName } from "./scheme.ts";
import { signature } from "./signature.ts";
import { tba } from "./tba.ts";
import { twoStep } from "./two-step.ts";

/** All kinds of credentials. A kind in the proto that is missing here is a compile error. */
const schemes: { readonly [N in SchemeName]: AuthScheme<N> } = {
  oauth2,
  oauth2Client,
  oauth1,
  apiKey,
  basic,
  tba,
  app,
  jwt,
  twoStep,
  signature,
  awsSigv4,
  clientCertificate,
  none,
  onBehalf,
};

/** The type of a scheme whose name is known only at run time. */
export type AnyScheme = AuthScheme<SchemeName>;

/** Returns the scheme of a kind. Pass it only credentials and rules of that kind. */
export const schemeOf = (name: SchemeName): AnyScheme => schemes[name] as AnyScheme;
