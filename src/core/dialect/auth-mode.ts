import type { Credentials } from "../../gen/latchkey/v1/credentials_pb.ts";
import type { Provider } from "../../gen/latchkey/v1/provider_pb.ts";

type CredentialsKind = Exclude<Credentials["kind"]["case"], undefined>;

/**
 * Maps each kind of credentials to its name in the SDK's dialect. A kind that exists in the proto but not in this table
 * is a compile error.
 */
export const authModes = {
  oauth2: "OAUTH2",
  oauth2Client: "OAUTH2_CC",
  oauth1: "OAUTH1",
  apiKey: "API_KEY",
  basic: "BASIC",
  tba: "TBA",
  app: "APP",
  jwt: "JWT",
  twoStep: "TWO_STEP",
  signature: "SIGNATURE",
  awsSigv4: "AWS_SIGV4",
  clientCertificate: "CLIENT_CERTIFICATE",
  none: "NONE",
} as const satisfies { readonly [K in CredentialsKind]: string };

export type AuthMode = (typeof authModes)[CredentialsKind];

/** The kind of credentials that a provider's connections hold. */
export const authModeOf = ({ auth }: Provider): string => authModes[auth.case ?? "none"];
