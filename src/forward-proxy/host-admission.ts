import { Fault } from "../base/fault.ts";
import type { Caller } from "../broker/setup/caller.ts";
import type { ForwardTarget } from "../data-plane/proxy/forwarding/forward-target.ts";
import { callerOfTarget } from "../data-plane/proxy/forwarding/target-caller.ts";
import type { CallerAccess } from "../data-plane/server/authenticate-request.ts";
import type { ConnectTarget } from "./connect-target.ts";
import { environmentOf } from "./forward-choices.ts";
import type { RouteTables } from "./route-tables.ts";

/** What happens to a tunnel: TLS ends here, or nothing is looked at. */
export type TunnelKind = "ended" | "passed_on";

/** An admitted tunnel, and who opens it. */
export interface AdmittedTunnel {
  readonly kind: TunnelKind;
  readonly caller: Caller;
}

/** Decides which hosts a caller of the forward proxy reaches, and how. */
export interface HostAdmission {
  /** Rejects for a key without access, and for a host that is not allowed. */
  admit(target: ForwardTarget, place: ConnectTarget): Promise<AdmittedTunnel>;
}

export interface HostAdmissionOptions {
  readonly access: CallerAccess;
  readonly tables: RouteTables;
  /** Returns the hosts of an environment, for the message that refuses this origin. */
  readonly hostsFor: (environment: string, origin: string) => readonly string[] | Promise<readonly string[]>;
  /** Whether a host is passed on without looking inside. */
  readonly isTunneled: (host: string, port: number) => boolean;
  /** Whether an address is a listener of this process. */
  readonly isOwn: (host: string, port: number) => boolean;
}

/** Hosts that a refusal names. */
const mostHosts = 10;

export function createHostAdmission(options: HostAdmissionOptions): HostAdmission {
  const { access, tables, hostsFor, isTunneled, isOwn } = options;

  async function callerOf(target: ForwardTarget): Promise<Caller> {
    try {
      return await callerOfTarget(access, target);
    } catch (error) {
      throw asProxyFault(error);
    }
  }

  /** Whether a connection of the caller's environment may have this host. */
  async function isKnown(caller: Caller, { origin, alias, named }: ForwardTarget): Promise<boolean> {
    const { rows } = await tables.of(environmentOf(caller), origin);
    const integration = alias?.integration ?? named?.integration;
    return rows.some((row) => integration === undefined || row.integration === integration);
  }

  async function refusal(caller: Caller, { alias, authority, origin }: ForwardTarget): Promise<Fault> {
    if (alias !== undefined) {
      return Fault.withoutStack("host_not_allowed", `the connection of this alias does not have the host ${authority}`);
    }
    const hosts = await hostsFor(environmentOf(caller), origin);
    const more = hosts.length > mostHosts ? ` and ${hosts.length - mostHosts} more` : "";
    const allowed = hosts.length === 0 ? "nothing, as it has none" : `${hosts.slice(0, mostHosts).join(", ")}${more}`;
    const message = `no integration of this environment has the host ${authority}; allowed: ${allowed}`;
    return Fault.withoutStack("host_not_allowed", message);
  }

  return {
    async admit(target, place) {
      const { host, port } = place;
      const caller = await callerOf(target);
      if (isOwn(host, port)) throw new Fault("host_not_allowed", `${place.authority} is Latchkey itself`);
      if (await isKnown(caller, target)) return { kind: "ended", caller };
      if (target.alias === undefined && isTunneled(host, port) && mayPassOn(caller, place)) {
        return { kind: "passed_on", caller };
      }
      throw await refusal(caller, target);
    },
  };
}

/** The key is the proxy's: clients that get 401 would believe that the host refuses them. */
function asProxyFault(error: unknown): unknown {
  if (!(error instanceof Fault) || error.status !== 401) return error;
  return new Fault("proxy_key_required", error.message);
}

/** Limits of methods, paths and tools cannot be checked where nothing is looked at. */
function mayPassOn({ limits }: Caller, { authority }: ConnectTarget): boolean {
  if (limits === undefined) return true;
  const { methods, paths } = limits.given;
  if (limits.limitsTools || methods.length + paths.length > 0) return false;
  const request = { method: "CONNECT", host: authority, basePath: "", path: "/", rawHeaders: [] };
  return limits.refusalOf(request) === undefined;
}
