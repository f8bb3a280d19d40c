import { isGrpc } from "../../core/outgoing/grpc.ts";
import { credentialFieldNames } from "../../core/outgoing/outgoing.ts";
import type { FrontHead } from "../../relay/client/incoming.ts";
import type { UpstreamRequest } from "../../relay/exchange.ts";
import type { ProviderCall } from "./provider-call.ts";

/** The protocol to the provider, and the fields that must not be kept in its tables. */
export type ProtocolChoice = Pick<UpstreamRequest, "protocol" | "isGrpc" | "sensitive">;

/** Returns undefined for most requests: they use HTTP/1.1. */
export function protocolChoice(
  { live, proxied, attachment }: Pick<ProviderCall, "live" | "proxied" | "attachment">,
  { headers }: FrontHead,
): ProtocolChoice | undefined {
  const isCall = isGrpc(headers["content-type"]);
  if (isCall || live.provider.proxy?.http2Only === true) {
    return { protocol: "http2", isGrpc: isCall, sensitive: [...credentialFieldNames(attachment)] };
  }
  return proxied.isHttp2 === true ? { protocol: "any", sensitive: [...credentialFieldNames(attachment)] } : undefined;
}
