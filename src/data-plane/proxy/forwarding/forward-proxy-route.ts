import type { JsonObject } from "@bufbuild/protobuf";
import { type Timestamp, timestampDate } from "@bufbuild/protobuf/wkt";
import { Fault } from "../../../base/fault.ts";
import { Scope } from "../../../gen/latchkey/v1/access_pb.ts";
import type { AuthorityCertificate } from "../../../gen/latchkey/v1/authority_pb.ts";
import type { Route } from "../../server/routes.ts";

export interface ForwardProxyRouteOptions {
  /** Address of the forward proxy; undefined: it is off. */
  readonly address: () => string | undefined;
  /** The certificates that programs must trust. */
  readonly certificates: () => readonly AuthorityCertificate[];
}

/** The path where programs learn how to use the forward proxy of this process. */
export const forwardProxyPath = "/forward-proxy";

export const forwardProxyRoute = ({ address, certificates }: ForwardProxyRouteOptions): Route => ({
  method: "GET",
  path: forwardProxyPath,
  scope: Scope.PROXY,
  // Says nothing of connections.
  takesLimited: true,
  answer() {
    const at = address();
    if (at === undefined) {
      throw new Fault("not_found", "the forward proxy is off: set LATCHKEY_FORWARD_PROXY_LISTEN");
    }
    return { status: 200, body: { data: { address: at, certificates: certificates().map(certificateJson) } } };
  },
});

const certificateJson = (one: AuthorityCertificate): JsonObject => ({
  id: one.id,
  pem: one.pem,
  sha256: one.sha256,
  not_before: iso(one.notBefore),
  not_after: iso(one.notAfter),
  signs_from: iso(one.signsFrom),
  signs_until: iso(one.signsUntil),
});

const iso = (at: Timestamp | undefined) => (at === undefined ? null : timestampDate(at).toISOString());
