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

  /** Returns the integrations of the caller's environment that have a host. */
  async function integrationsWith({ origin, alias, named }: ForwardTarget, caller: Caller): Promise<readonly string[]> {
    const { rows } = await tables.of(environmentOf(caller), origin);
    const wanted = alias?.integration ?? named?.integration;
    const all = rows.map(({ integration }) => integration);
    return wanted === undefined ? all : all.filter((integration) => integration === wanted);
  }

  async function refusal(caller: Caller, { alias, authority, origin }: ForwardTarget): Promise<Fault> {
    if (alias !== undefined) {
      return Fault.withoutStack("host_not_allowed", `the connection of this alias does not have the host ${authority}`);
    }
    const { limits } = caller;
    if (limits?.integrations !== undefined && limits.given.hosts.length === 0) return outsideLimits(authority, []);
    const isNamed = limits !== undefined && limits.given.hosts.length > 0;
    const hosts = isNamed ? limits.given.hosts : await hostsFor(environmentOf(caller), origin);
    if (limits !== undefined) return outsideLimits(authority, hosts);
    const message = `no integration of this environment has the host ${authority}; allowed: ${listOf(hosts)}`;
    return Fault.withoutStack("host_not_allowed", message);
  }

  return {
    async admit(target, place) {
      const { host, port } = place;
      const caller = await callerOf(target);
      if (isOwn(host, port)) throw new Fault("host_not_allowed", `${place.authority} is Latchkey itself`);
      const integrations = await integrationsWith(target, caller);
      const isAllowed = integrations.some((integration) => admitsIntegration(caller, integration));
      if (isAllowed && admitsHost(caller, target.authority)) return { kind: "ended", caller };
      const isFree = integrations.length === 0 && target.alias === undefined;
      if (isFree && isTunneled(host, port) && mayPassOn(caller, place)) {
        return { kind: "passed_on", caller };
      }
      throw await refusal(caller, target);
    },
  };
}

/** A limited caller gets the same answer whether other integrations have the host or none has. */
function outsideLimits(authority: string, hosts: readonly string[]): Fault {
  const allowed = hosts.length === 0 ? "" : `; allowed: ${listOf(hosts)}`;
  const message = `the caller's limits include no connection with the host ${authority}${allowed}`;
  return Fault.withoutStack("not_in_session", message);
}

function listOf(hosts: readonly string[]): string {
  const more = hosts.length > mostHosts ? ` and ${hosts.length - mostHosts} more` : "";
  return hosts.length === 0 ? "nothing, as it has none" : `${hosts.slice(0, mostHosts).join(", ")}${more}`;
}

/** The key is the proxy's: clients that get 401 would believe that the host refuses them. */
function asProxyFault(error: unknown): unknown {
  if (!(error instanceof Fault) || error.status !== 401) return error;
  return new Fault("proxy_key_required", error.message);
}

const admitsIntegration = ({ limits }: Caller, integration: string): boolean =>
  limits?.integrations === undefined || limits.integrations.has(integration);

const admitsHost = ({ limits }: Caller, host: string): boolean => limits === undefined || limits.admitsHost(host);

/**
 * Returns whether a caller may have a tunnel that is passed on. Limits of methods, paths and tools cannot be checked
 * where nothing is looked at.
 */
export function mayPassOn({ limits }: Caller, { authority }: ConnectTarget): boolean {
  if (limits === undefined) return true;
  const { methods, paths } = limits.given;
  if (limits.limitsTools || methods.length + paths.length > 0) return false;
  const request = { method: "CONNECT", host: authority, basePath: "", path: "/", rawHeaders: [] };
  return limits.refusalOf(request) === undefined;
}
