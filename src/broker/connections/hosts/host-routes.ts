import { partialBindingOf } from "../../../core/outgoing/binding.ts";
import type { Connection } from "../../../gen/latchkey/v1/connection_pb.ts";
import type { Integration } from "../../../gen/latchkey/v1/integration_pb.ts";
import type { Provider } from "../../../gen/latchkey/v1/provider_pb.ts";
import type { Integrations } from "../../setup/integrations.ts";
import type { Providers } from "../../setup/providers.ts";
import type { ConnectionListing } from "../search.ts";
import { type HostPattern, hostPatterns } from "./host-patterns.ts";

/** An integration whose connections may be sent to a host. */
export interface HostRoute {
  readonly integration: string;
  /** Requests of this integration begin with this path; empty: with any. */
  readonly basePath: string;
}

/** Connections of an integration that may be sent to a host. */
export interface RoutedConnections {
  /** In the order of their ids. */
  readonly ids: readonly string[];
  /** There may be more of them. */
  readonly hasMore: boolean;
  /** Each connection of the integration has the host, whatever its settings are. */
  readonly isForAll: boolean;
}

/** Finds what a URL stands for: integrations by the host, and their connections. */
export interface HostRoutes {
  /** Returns the integrations of an environment that have this origin, `https://host[:port]`. */
  routesOf(environment: string, origin: string): Promise<readonly HostRoute[]>;
  /** Returns the connections of an integration whose credentials may be sent to this origin. */
  connectionsOf(place: RoutePlace): Promise<RoutedConnections>;
  /** Returns whether the credentials of a connection may be sent to this origin. */
  isBound(place: RoutePlace, connection: Connection): Promise<boolean>;
  /** Returns the hosts of an environment's integrations, for messages. */
  hostsOf(environment: string): Promise<readonly string[]>;
  /** Reads the integrations of an environment again when they are next asked for; undefined: of all. */
  forget(environment?: string): void;
}

export interface RoutePlace {
  readonly environment: string;
  readonly integration: string;
  readonly origin: string;
}

interface HostRoutesOptions {
  readonly integrations: Pick<Integrations, "list" | "get">;
  readonly providers: Pick<Providers, "lookUp">;
  readonly listing: Pick<ConnectionListing, "list">;
}

interface RoutedIntegration {
  readonly integration: Integration;
  readonly provider: Provider;
  readonly patterns: readonly HostPattern[];
}

interface KnownEnvironment {
  readonly untilMs: number;
  readonly integrations: Promise<readonly RoutedIntegration[]>;
}

/** How long integrations are not read again: a new one is found within this time. */
const keptMs = 500;
/** More environments than this are read each time. */
const maxKept = 100;
/** A choice needs to know whether there is one connection or several, and names a few. */
const mostConnections = 10;
/** Connections that are looked at for one host. */
const mostLookedAt = 500;

export function createHostRoutes({ integrations, providers, listing }: HostRoutesOptions): HostRoutes {
  const known = new Map<string, KnownEnvironment>();

  async function read(environment: string): Promise<readonly RoutedIntegration[]> {
    const all: RoutedIntegration[] = [];
    let token = "";
    do {
      const { items, next } = await integrations.list({ environment, provider: "" }, { size: 500, token });
      for (const integration of items) {
        const provider = providers.lookUp(integration.provider);
        if (provider === undefined) continue;
        all.push({ integration, provider, patterns: hostPatterns(integration, provider) });
      }
      token = next;
    } while (token !== "");
    return all;
  }

  function integrationsOf(environment: string): Promise<readonly RoutedIntegration[]> {
    const nowMs = performance.now();
    const kept = known.get(environment);
    if (kept !== undefined && kept.untilMs > nowMs) return kept.integrations;
    if (known.size >= maxKept) known.clear();
    const integrations = read(environment);
    known.set(environment, { untilMs: nowMs + keptMs, integrations });
    // A failed read is not kept.
    integrations.catch(() => known.delete(environment));
    return integrations;
  }

  return {
    async routesOf(environment, origin) {
      const { scheme, host } = partsOf(origin);
      return (await integrationsOf(environment)).flatMap(({ integration, patterns }) => {
        const found = patterns.filter((one) => one.scheme === scheme && one.matches(host));
        const [first] = found;
        if (first === undefined) return [];
        // Several patterns of one integration: any path that one of them allows.
        const basePath = found.length === 1 ? first.basePath : "";
        return [{ integration: integration.key, basePath }];
      });
    },
    async connectionsOf({ environment, integration: key, origin }) {
      const all = await integrationsOf(environment);
      const found = all.find(({ integration }) => integration.key === key);
      if (found === undefined) return { ids: [], hasMore: false, isForAll: true };
      const isForAll = hasFixed(found, origin);
      const ids: string[] = [];
      let token = "";
      let left = isForAll ? mostConnections + 1 : mostLookedAt;
      do {
        const query = { environment, integrations: [key], id: "", tags: {}, states: [], search: "" };
        const page = await listing.list(query, { size: Math.min(left, 100), token });
        for (const connection of page.items) {
          if (isForAll || isBoundTo(found, connection, origin)) ids.push(connection.ref?.id ?? "");
        }
        left -= page.items.length;
        token = page.next;
      } while (token !== "" && left > 0 && ids.length <= mostConnections);
      const hasMore = token !== "" || ids.length > mostConnections;
      return { ids: ids.slice(0, mostConnections), hasMore, isForAll };
    },
    async isBound({ environment, integration: key, origin }, connection) {
      const found = (await integrationsOf(environment)).find(({ integration }) => integration.key === key);
      return found !== undefined && (hasFixed(found, origin) || isBoundTo(found, connection, origin));
    },
    async hostsOf(environment) {
      const all = await integrationsOf(environment);
      return [...new Set(all.flatMap(({ patterns }) => patterns.map(({ text }) => text)))].sort();
    },
    forget(environment) {
      if (environment === undefined) known.clear();
      else known.delete(environment);
    },
  };
}

/** Without a part of its own in the host, each connection of the integration has it. */
function hasFixed({ patterns }: RoutedIntegration, origin: string): boolean {
  const { scheme, host } = partsOf(origin);
  return patterns.some((one) => one.scheme === scheme && one.host === host);
}

const isBoundTo = ({ integration, provider }: RoutedIntegration, connection: Connection, origin: string): boolean =>
  partialBindingOf({ connection, integration, provider }).binding.pathWithin(`${origin}/`) !== undefined;

function partsOf(origin: string): { readonly scheme: string; readonly host: string } {
  const [, scheme = "", host = ""] = /^(https?):\/\/(.*)$/.exec(origin) ?? [];
  return { scheme, host };
}
