import type { JsonObject } from "@bufbuild/protobuf";
import { type Credentials, CredentialsSchema } from "../gen/latchkey/v1/credentials_pb.ts";
import { type Provider, ProviderSchema } from "../gen/latchkey/v1/provider_pb.ts";
import { optionalValues } from "./jwt/optional-values.ts";
import { type AttachedNames, type Attachment, CannotAttach, type Client } from "./scheme.ts";
import { schemeOf } from "./schemes.ts";

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

interface AttachmentRequest {
  readonly credentials: Credentials;
  readonly provider: Provider;
  /** The integration's OAuth app; an app among the credentials takes precedence. */
  readonly client?: Client | undefined;
  /** The connection's configuration, for rules that name `${connectionConfig.NAME}`. */
  readonly connectionConfig?: JsonObject | undefined;
  /** Name of a further token of the credentials; undefined: the main one. */
  readonly token?: string | undefined;
  readonly nowMs: number;
}

/** Returns how requests of a connection carry its credentials, as the provider requires. Throws CannotAttach. */
export function attachmentOf(request: AttachmentRequest): Attachment {
  const { provider, client, connectionConfig = {}, token, nowMs } = request;
  const { auth } = provider;
  const { kind } = request.credentials;
  if (auth.case === undefined) throw new CannotAttach("the provider's description names no kind of credentials");
  if (kind.case !== auth.case) {
    const given = kind.case === undefined ? "of no kind" : CredentialsSchema.field[kind.case].name;
    throw new CannotAttach(
      `the provider takes ${ProviderSchema.field[auth.case].name}, and the credentials are ${given}`,
    );
  }
  // The check above ensures that credentials, rules and scheme are of the same case.
  return schemeOf(auth.case).attach({
    credentials: kind.value,
    rules: auth.value,
    client,
    connectionConfig,
    optional: optionalValues(provider),
    token,
    nowMs,
  });
}

/** Returns the names of the caller's headers and parameters that are replaced, for any connection of the provider. */
export function attachedNames({ auth }: Provider): AttachedNames {
  if (auth.case === undefined) return { headers: [], query: [] };
  return schemeOf(auth.case).names(auth.value);
}
