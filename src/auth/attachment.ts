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

/** All schemes. A scheme in the proto that is missing here is a compile error. */
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

/** The type of a scheme whose name is known only at run time. */
type AnyScheme = AuthScheme<SchemeName>;

interface AttachmentRequest {
  readonly credentials: Credentials;
  readonly provider: Provider;
  /** The integration's OAuth app; an app among the credentials takes precedence. */
  readonly client?: Client | undefined;
  /** The connection's configuration, for rules that name `${connectionConfig.NAME}`. */
  readonly connectionConfig?: JsonObject | undefined;
  readonly nowMs: number;
}

/** Returns how requests of a connection carry its credentials, as the provider requires. Throws CannotAttach. */
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
  // The check above ensures that credentials, rules and scheme are of the same case.
  const scheme = schemes[auth.case] as AnyScheme;
  return scheme.attach({ credentials: kind.value, rules: auth.value, client, connectionConfig, nowMs });
}

/** Returns the names of the caller's headers and parameters that are replaced, for any connection of the provider. */
export function attachedNames({ auth }: Provider): AttachedNames {
  if (auth.case === undefined) return { headers: [], query: [] };
  // The scheme is looked up by the case of the rules.
  return (schemes[auth.case] as AnyScheme).names(auth.value);
}
