import { CannotAttach } from "../../auth/attachment.ts";
import { Fault, type FaultCode } from "../../base/fault.ts";
import { grpcRefusal } from "../../base/http/grpc-status.ts";
import { type FailureKind, RelayFailure } from "../../relay/failure.ts";

/** Converts errors of preparing a request. */
export function faultOfPreparing(error: unknown): unknown {
  if (error instanceof CannotAttach) {
    return new Fault("connection_unusable", `the connection cannot be used: ${error.message}`, { cause: error });
  }
  return error instanceof RelayFailure ? faultOfRelay(error) : error;
}

const codes: Readonly<Record<FailureKind, FaultCode>> = {
  refused: "provider_unreachable",
  unreachable: "provider_unreachable",
  unknown_host: "provider_unknown",
  address_forbidden: "host_not_allowed",
  untrusted: "provider_untrusted",
  connect_timeout: "provider_timeout",
  answer_timeout: "provider_timeout",
  idle_timeout: "provider_timeout",
  closed: "provider_closed",
  cut_off: "provider_closed",
  malformed: "provider_malformed",
  overloaded: "overloaded",
  no_http2: "http2_required",
  egress_proxy: "egress_proxy_failed",
  egress_refused: "egress_proxy_refused",
};

export function faultOfRelay(failure: RelayFailure): Fault {
  const code = codes[failure.kind];
  return new Fault(code, failure.message, {
    cause: failure,
    ...(code === "overloaded" ? { retryAfterSeconds: 1 } : {}),
  });
}

/** Returns gRPC's status of a failure, as trailers. */
export function grpcTrailers(failure: RelayFailure): readonly string[] {
  const { "content-type": _, ...fields } = grpcRefusal(faultOfRelay(failure));
  return Object.entries(fields).flat();
}
