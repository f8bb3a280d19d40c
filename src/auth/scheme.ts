import type { JsonObject } from "@bufbuild/protobuf";
import type { Timestamp } from "@bufbuild/protobuf/wkt";
import type { Credentials } from "../gen/latchkey/v1/credentials_pb.ts";
import type { Provider } from "../gen/latchkey/v1/provider_pb.ts";
import type { Tokens } from "./oauth2/tokens.ts";
import type { TokenRefresh } from "./token-refresh.ts";

export type NameValue = readonly [name: string, value: string];

/** What a request of any kind of attachment carries beside its credentials. */
interface AttachedBeside {
  /** For the TLS connection; PEM. */
  readonly clientCertificate?: { readonly certificate: string; readonly privateKey: string };
  /** Secrets that appear verbatim, alone or within the headers and parameters. */
  readonly shown?: readonly string[];
  /** Values of headers and parameters that are no secrets, such as the ID of an account. */
  readonly known?: readonly string[];
}

/** Headers and parameters of every request of a connection, created once and cached. */
export interface FixedAttachment extends AttachedBeside {
  readonly kind: "fixed";
  readonly headers: readonly NameValue[];
  /** Names and values before percent-encoding. */
  readonly query: readonly NameValue[];
  /** Expiry, in milliseconds since 1970; then the attachment is created again. */
  readonly untilMs?: number;
}

/** A signature that is computed for each request. */
export interface SigningAttachment extends AttachedBeside {
  readonly kind: "signing";
  /** The part of the body needed for signing: none; the body if it is a form; or any body. */
  readonly needs: "nothing" | "form" | "body";
  /** Headers that the scheme sets or deliberately omits, in lower case: a caller's own are dropped. */
  readonly headerNames: readonly string[];
  /** Depends only on the draft, except for randomness in the signature itself. */
  readonly sign: (draft: RequestDraft) => { readonly headers: readonly NameValue[] };
  /** Parameters that are added before signing. Names and values before percent-encoding. */
  readonly query?: readonly NameValue[];
  /** Response header, in lower case, with the nonce for the next request. */
  readonly nonceHeader?: string;
}

export type Attachment = FixedAttachment | SigningAttachment;

/** A request before signing. */
export interface RequestDraft {
  readonly method: string;
  readonly scheme: "https" | "http";
  /** The value of the Host header. */
  readonly host: string;
  /** Raw, as sent, without the query. */
  readonly path: string;
  /** Raw, without the question mark. */
  readonly query: string;
  /** Headers to send, names in lower case. */
  readonly headers: readonly NameValue[];
  /** Undefined if there is none, or if it was not needed: see `needs`. */
  readonly body: Uint8Array | undefined;
  readonly nowMs: number;
  /** Unpredictable text, for nonces. */
  readonly nonce: string;
  /** The provider's nonce, if any: see `nonceHeader`. */
  readonly providerNonce?: string | undefined;
}

/** An integration's OAuth app. */
export interface Client {
  readonly id: string;
  readonly secret: string;
  /** PEM. */
  readonly privateKey?: string | undefined;
  /** Scopes of the integration. */
  readonly scopes?: readonly string[] | undefined;
}

/** Names of the caller's headers and query parameters that ours replace. Header names are in lower case. */
export interface AttachedNames {
  readonly headers: readonly string[];
  readonly query: readonly string[];
}

export type SchemeName = NonNullable<Provider["auth"]["case"]>;
export type RulesOf<N extends SchemeName> = Extract<Provider["auth"], { case: N }>["value"];
export type CredentialsOf<N extends SchemeName> = Extract<Credentials["kind"], { case: N }>["value"];

export interface AttachRequest<N extends SchemeName> {
  readonly credentials: CredentialsOf<N>;
  readonly rules: RulesOf<N>;
  readonly client: Client | undefined;
  readonly connectionConfig: JsonObject;
  /** Placeholders whose values the connection may lack. */
  readonly optional: ReadonlySet<string>;
  /** Name of a further token of the credentials; undefined: the main one. */
  readonly token: string | undefined;
  readonly nowMs: number;
}

/** Everything about one kind of credentials. Pure: describes requests, and sends nothing. */
export interface AuthScheme<N extends SchemeName> extends CredentialLife<N>, CredentialRefresh<N>, CredentialViews<N> {
  readonly attach: (request: AttachRequest<N>) => Attachment;
  readonly names: (rules: RulesOf<N>) => AttachedNames;
}

/** How long credentials of one kind are valid. */
export interface CredentialLife<N extends SchemeName> {
  /** When the credentials expire; undefined if never, or not known. */
  readonly expiresAt: (credentials: CredentialsOf<N>) => Timestamp | undefined;
  /** Whether the credentials were supplied without a token, which is still to be requested with them. */
  readonly lacksToken: (credentials: CredentialsOf<N>) => boolean;
  /** The stored response of a token endpoint whose `expires_in` is the token's lifetime. */
  readonly issuedWith: (credentials: CredentialsOf<N>) => JsonObject | undefined;
}

export interface RefreshContext<N extends SchemeName> {
  /** Undefined if the provider takes another kind of credentials by now. */
  readonly rules: RulesOf<N> | undefined;
  /** The scopes that the integration requests. */
  readonly scopes: readonly string[];
}

/** How credentials of one kind are refreshed. */
export interface CredentialRefresh<N extends SchemeName> {
  /** Whether new credentials can be obtained without the end user. */
  readonly canRefresh: (
    credentials: CredentialsOf<N>,
    context: Pick<RefreshContext<N>, "rules"> & { readonly nowMs: number },
  ) => boolean;
  /** Whether the provider's rules name an endpoint for tokens. */
  readonly hasTokenEndpoint: (rules: RulesOf<N>) => boolean;
  /** Returns the request that refreshes the credentials; undefined if they hold nothing to refresh them with. */
  readonly refresh: (credentials: CredentialsOf<N>, context: RefreshContext<N>) => TokenRefresh | undefined;
  /** Returns the credentials with new tokens. Values that the response does not name stay as they were. */
  readonly refreshed: (credentials: CredentialsOf<N>, tokens: Tokens) => CredentialsOf<N>;
}

/** Parts of credentials that are shown only to callers that ask for them. */
export interface CredentialViews<N extends SchemeName> {
  /** Returns the key that the token is bound to, in PEM (RFC 9449); empty: the token is bound to none. */
  readonly dpopKeyOf: (credentials: CredentialsOf<N>) => string;
  readonly withoutRefreshToken: (credentials: CredentialsOf<N>) => CredentialsOf<N>;
  readonly withoutDpopKey: (credentials: CredentialsOf<N>) => CredentialsOf<N>;
  /** Returns what requests need, without what only a refresh needs. */
  readonly forRequests: (credentials: CredentialsOf<N>, rules: RulesOf<N> | undefined) => CredentialsOf<N>;
}

/** Credentials that cannot be attached. The message is for the integration's operator, and never quotes a secret. */
export class CannotAttach extends Error {
  override readonly name = "CannotAttach";
}
