import { randomBytes } from "node:crypto";
import type { Attachment } from "../../auth/attachment.ts";
import { Fault } from "../../base/fault.ts";
import type { SendOptions, SendSmallRequest, SmallAnswer } from "../../base/small-requests.ts";
import type { World } from "../../base/world.ts";
import type { Address, Binding } from "../../core/outgoing/binding.ts";
import { plainRules } from "../../core/outgoing/filled-fields.ts";
import { UnboundHost } from "../../core/outgoing/filled-url.ts";
import { outgoingParts } from "../../core/outgoing/outgoing.ts";
import { mistakeInPath } from "../../core/outgoing/provider-path.ts";
import { refusedAddress } from "../../core/outgoing/refused-address.ts";
import type { Credentials } from "../../gen/latchkey/v1/credentials_pb.ts";
import type { Attachments } from "./attachments.ts";
import type { LiveConnection } from "./live-connections.ts";
import { missingValueFault } from "./missing-value.ts";

/**
 * Sends one small request with a connection's credentials, as the proxy would, and returns the whole response. Rejects
 * with `Unanswered`, and with a Fault if no valid request can be made.
 */
export type AskWithConnection = (
  live: LiveConnection,
  request: ConnectionRequest,
  options: ConnectionSendOptions,
) => Promise<SmallAnswer>;

export interface ConnectionSendOptions extends SendOptions {
  /** Called before it is sent. */
  readonly noteSent?: NoteSent | undefined;
  /** Called before it is sent; throws for a request that must not be sent. */
  readonly admit?: ((target: ConnectionRequestTarget) => void | Promise<void>) | undefined;
}

/** Where a request goes, and the headers that are sent besides the credentials. */
export interface ConnectionRequestTarget {
  readonly origin: string;
  readonly host: string;
  readonly basePath: string;
  readonly fields: readonly string[];
  readonly attachment: Attachment;
}

/** The credentials that a request carries. */
export interface SentCredentials {
  readonly credentials: Credentials;
  readonly attachment: Attachment;
}

export type NoteSent = (sent: SentCredentials) => void;

export interface ConnectionRequest {
  readonly method: string;
  /** The path and query after the base path. */
  readonly path: string;
  /** Header names and values in turn. */
  readonly rawHeaders: readonly string[];
  readonly content: Uint8Array | undefined;
  /** Replaces the provider's base URL, if the credentials may be sent there. */
  readonly baseUrl?: string | undefined;
  /** Send it even if the connection lacks a value that the provider's description requires: the request asks for it. */
  readonly mayLack?: boolean;
}

interface ConnectionRequestOptions {
  readonly attachments: Attachments;
  readonly send: SendSmallRequest;
  readonly world: World;
}

export function createConnectionRequests({ attachments, send, world }: ConnectionRequestOptions): AskWithConnection {
  return async (live, { method, path, rawHeaders, content, baseUrl, mayLack = false }, options) => {
    const { attachment, binding } = attachments(live, { mayLack });
    options.noteSent?.({ credentials: live.credentials, attachment });
    const mistake = mistakeInPath(path);
    if (mistake !== undefined) throw new Fault("invalid_path", mistake);
    const address = baseUrl === undefined ? addressFor(binding, path, live) : binding.addressAt(baseUrl);
    if (address === undefined) throw refusedAddress(binding, baseUrl);
    const { origin, basePath } = address;
    const { host } = new URL(origin);
    const { target, fields, attached } = outgoingParts({
      proxied: { method, path, rawHeaders, body: content === undefined ? "none" : "length", key: undefined },
      scheme: origin.startsWith("https:") ? "https" : "http",
      host,
      basePath,
      attachment,
      proxy: plainRules(live.provider.proxy),
      wantsPlain: false,
      content,
      nowMs: world.now(),
      nonce: () => randomBytes(16).toString("base64url"),
    });
    await options.admit?.({ origin, host, basePath, fields, attachment });
    const headers: Record<string, string> = {};
    for (let i = 0; i < fields.length; i += 2) headers[fields[i] ?? ""] = fields[i + 1] ?? "";
    for (const [name, value] of attached) headers[name] = value;
    const { clientCertificate } = attachment;
    // Policies and signatures are about the target as it is written here.
    return send({ url: `${origin}${target}`, target, method, headers, body: content, clientCertificate }, options);
  };
}

/** Throws a Fault for a connection that lacks a value of the address. */
function addressFor(binding: Binding, path: string, live: LiveConnection): Address {
  try {
    return binding.addressFor(path);
  } catch (error) {
    if (!(error instanceof UnboundHost)) throw error;
    throw missingValueFault(error, live);
  }
}
