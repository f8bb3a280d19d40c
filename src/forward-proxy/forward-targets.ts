import { createRecentCache } from "../base/caches/recent-cache.ts";
import { Fault } from "../base/fault.ts";
import { ForwardTarget } from "../data-plane/proxy/forwarding/forward-target.ts";
import type { ConnectionRef } from "../gen/latchkey/v1/connection_pb.ts";
import type { FrontHead } from "../relay/client/incoming.ts";
import type { ConnectTarget } from "./connect-target.ts";
import { proxyCredentials } from "./proxy-credentials.ts";

/** The targets of a listener's requests. Equal ones share one object. */
export interface ForwardTargets {
  /** Returns the target of a request for a tunnel. Throws for one with a malformed key. */
  ofTunnel(request: FrontHead, place: ConnectTarget): ForwardTarget;
  /** Returns the target of a request in absolute form. Throws for one with a malformed key. */
  ofUrl(request: FrontHead): ForwardTarget;
}

type TargetPlace = Pick<ConnectTarget, "origin" | "authority">;

const mostTargets = 4_096;

export function createForwardTargets(alias: ConnectionRef | undefined): ForwardTargets {
  const targets = createRecentCache<ForwardTarget>(mostTargets);

  function targetOf(request: FrontHead, { origin, authority }: TargetPlace, isTunnel: boolean): ForwardTarget {
    const authorization = proxyAuthorizationOf(request);
    if (authorization === undefined || authorization === "") {
      return new ForwardTarget({ origin, authority, key: "", peer: request.socket, named: undefined, alias, isTunnel });
    }
    const { key, named } = proxyCredentials(authorization);
    const name = JSON.stringify([isTunnel, origin, key, named?.integration, named?.id]);
    const known = targets.get(name);
    if (known !== undefined) return known;
    // Remembered only with a good key: others could fill the memory, and push out the targets of good callers.
    const onAdmitted = (target: ForwardTarget) => targets.set(name, target);
    return new ForwardTarget({ origin, authority, key, named, alias, isTunnel, onAdmitted });
  }

  return {
    ofTunnel: (request, place) => targetOf(request, place, true),
    ofUrl: (request) => targetOf(request, placeOf(request.url ?? ""), false),
  };
}

function proxyAuthorizationOf({ headers }: FrontHead): string | undefined {
  const value: string | string[] | undefined = headers["proxy-authorization"];
  return typeof value === "string" ? value : undefined;
}

/** The address of a request in absolute form: `http` may mean either. */
function placeOf(url: string): TargetPlace {
  const [, scheme = "", authority = ""] = /^(https?):\/\/([^/?#]*)/i.exec(url) ?? [];
  const written = `${scheme.toLowerCase()}://${authority.toLowerCase()}`;
  if (authority === "" || !URL.canParse(written) || /[@\\]/.test(authority)) {
    throw new Fault("invalid_path", "the request must name a host: http://api.example.com/path");
  }
  const { origin, host } = new URL(written);
  return { origin, authority: host };
}
