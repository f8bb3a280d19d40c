import type { JsonObject } from "@bufbuild/protobuf";
import { type Credentials, CredentialsSchema } from "../gen/latchkey/v1/credentials_pb.ts";
import { type Provider, ProviderSchema } from "../gen/latchkey/v1/provider_pb.ts";
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
import {
  type AttachedNames,
  type Attachment,
  type AuthScheme,
  CannotAttach,
  type Client,
  type SchemeName,
} from "./scheme.ts";
import { signature } from "./signature.ts";
import { tba } from "./tba.ts";
import { twoStep } from "./two-step.ts";

export type {
  AttachedNames,
  Attachment,
  Client,
  FixedAttachment,
  NameValue,
  RequestDraft,
  SigningAttachment,
} from "./scheme.ts";
export { CannotAttach } from "./scheme.ts";

/** Every scheme there is. One that the proto names and this table lacks does not compile. */
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
};

/** How the compiler sees a scheme of which nobody knows the name before the program runs. */
type AnyScheme = AuthScheme<SchemeName>;

interface AttachmentRequest {
  readonly credentials: Credentials;
  readonly provider: Provider;
  /** The integration's OAuth app. One among the credentials wins. */
  readonly client?: Client | undefined;
  /** What the connection says of itself, for rules that name `${connectionConfig.NAME}`. */
  readonly connectionConfig?: JsonObject | undefined;
  readonly nowMs: number;
}

/** How a connection's requests show its credentials, in the provider's way. Throws CannotAttach. */
export function attachmentOf(request: AttachmentRequest): Attachment {
  const { provider, client, connectionConfig = {}, nowMs } = request;
  const { auth } = provider;
  const { kind } = request.credentials;
  if (auth.case === undefined) throw new CannotAttach("the provider names no kind of credentials");
  if (kind.case !== auth.case) {
    const given = kind.case === undefined ? "of no kind" : CredentialsSchema.field[kind.case].name;
    throw new CannotAttach(
      `the provider takes ${ProviderSchema.field[auth.case].name}, and the credentials are ${given}`,
    );
  }
  // The credentials and the rules are of one case, as was just checked, and so is the scheme.
  const scheme = schemes[auth.case] as AnyScheme;
  return scheme.attach({ credentials: kind.value, rules: auth.value, client, connectionConfig, nowMs });
}

/** Which of a caller's own headers and parameters give way, whatever the connection. */
export function attachedNames({ auth }: Provider): AttachedNames {
  if (auth.case === undefined) return { headers: [], query: [] };
  // The rules are of the case that the scheme is found by.
  return (schemes[auth.case] as AnyScheme).names(auth.value);
}
