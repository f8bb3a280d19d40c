import type { JsonObject } from "@bufbuild/protobuf";
import type { Credentials } from "../gen/latchkey/v1/credentials_pb.ts";
import type { Provider } from "../gen/latchkey/v1/provider_pb.ts";

export type NameValue = readonly [name: string, value: string];

/** What credentials show on the TLS connection itself. */
interface OnConnection {
  /** PEM. */
  readonly clientCertificate?: { readonly certificate: string; readonly privateKey: string };
}

/** What every request of a connection carries, made once and kept. */
export interface FixedAttachment extends OnConnection {
  readonly kind: "fixed";
  readonly headers: readonly NameValue[];
  /** Names and values not yet percent-encoded. */
  readonly query: readonly NameValue[];
  /** Not after this moment, in milliseconds since 1970: then it is made anew. */
  readonly untilMs?: number;
}

/** What has to be made for each request out of the request itself. */
export interface SigningAttachment extends OnConnection {
  readonly kind: "signing";
  /** What of the body must be known first: nothing; the body, when it is a form; or whatever it is. */
  readonly needs: "nothing" | "form" | "body";
  /** The headers that it sets or leaves out on purpose, in lower case: a caller's own are dropped. */
  readonly headerNames: readonly string[];
  /** Of the draft alone, but for what is random in a signature itself. */
  readonly sign: (draft: RequestDraft) => { readonly headers: readonly NameValue[] };
  /** Secrets that stand in what it makes as they are. */
  readonly shown?: readonly string[];
  /** The header of an answer, in lower case, that brings what the next request must be signed with. */
  readonly nonceHeader?: string;
}

export type Attachment = FixedAttachment | SigningAttachment;

/** A request on its way out. */
export interface RequestDraft {
  readonly method: string;
  readonly scheme: "https" | "http";
  /** As the Host header has it. */
  readonly host: string;
  /** Raw, as sent, without the query. */
  readonly path: string;
  /** Raw, without the question mark. */
  readonly query: string;
  /** What is sent, names in lower case. */
  readonly headers: readonly NameValue[];
  /** Undefined when there is none, and when nobody asked for it: see `needs`. */
  readonly body: Uint8Array | undefined;
  readonly nowMs: number;
  /** Unguessable, for nonces. */
  readonly nonce: string;
  /** What the provider gave to sign with, where it has: see `nonceHeader`. */
  readonly providerNonce?: string | undefined;
}

/** The OAuth app that an integration was set up with. */
export interface Client {
  readonly id: string;
  readonly secret: string;
  /** PEM. */
  readonly privateKey?: string | undefined;
}

/** Which of a caller's own headers and query parameters give way to ours. Headers are in lower case. */
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
  readonly nowMs: number;
}

/** One way in which a provider is shown credentials. Pure: it describes, and somebody else sends. */
export interface AuthScheme<N extends SchemeName> {
  readonly attach: (request: AttachRequest<N>) => Attachment;
  readonly names: (rules: RulesOf<N>) => AttachedNames;
}

/** Credentials that cannot be attached. The message is for whoever runs the integration, and never quotes a secret. */
export class CannotAttach extends Error {
  override readonly name = "CannotAttach";
}
