import type { Fault } from "../../base/fault.ts";
import type { RareWarning } from "../../base/rare-warning.ts";
import type { World } from "../../base/world.ts";
import type { FrontRequest } from "../../relay/client/incoming.ts";
import type { PageOrigins } from "../connect/page-origin.ts";

/** Counts and logs what a listener refuses before any route or provider sees it. */
export interface RefusalLog {
  count(fault: Fault): void;
  /** Counts a peer that does not follow a protocol, and logs `message`. */
  peer(message: string, fault: Fault, peer: string | undefined): void;
  /** Logs the origin of a refused page, for an operator who forgot to allow it. Ignores other faults. */
  page(request: FrontRequest, fault: Fault): void;
}

interface RefusalLogOptions {
  readonly door: string;
  /** Undefined for a listener without pages. */
  readonly origins: PageOrigins | undefined;
  readonly warn: RareWarning;
  readonly metrics: Pick<World["metrics"], "refused">;
}

export function createRefusalLog({ door, origins, warn, metrics }: RefusalLogOptions): RefusalLog {
  const count = ({ code: reason }: Fault) => metrics.refused.inc({ door, reason });
  return {
    count,
    peer(message, fault, peer = "unix") {
      count(fault);
      warn(message, { door, peer, reason: fault.code });
    },
    page({ headers, socket }, fault) {
      const { code, metadata } = fault;
      const origin = metadata["origin"] ?? headers.origin;
      if (code !== "origin_not_allowed" || origin === undefined || origins === undefined) return;
      const environment = metadata["environment"] ?? origins.environments().join(", ");
      count(fault);
      const { remoteAddress: peer = "unix" } = socket;
      const about = { door, peer, reason: code, origin: origin.slice(0, 200), environment: environment.slice(0, 500) };
      warn("page refused: its origin is not in allowed_origins of the environment", about);
    },
  };
}
