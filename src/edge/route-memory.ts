import { LRUCache } from "lru-cache";
import { Fault } from "../base/fault.ts";
import type { World } from "../base/world.ts";
import type { RouteTable, RouteTables } from "../forward-proxy/route-tables.ts";
import type { ConnectionRef } from "../gen/latchkey/v1/connection_pb.ts";
import type { EdgeRoute, EdgeRoutes, RouteSubject } from "../gen/latchkey/v1/edge_pb.ts";
import { faultOf } from "./broker-fault.ts";
import type { BrokerSilence } from "./edge-live.ts";
import type { Questions } from "./questions.ts";

/** Which connections the addresses have that callers use without naming one. Brokers say when that changes. */
export interface RouteMemory {
  readonly tables: RouteTables;
  /** Returns the hosts that a refusal of this origin names. */
  hostsFor(origin: string): readonly string[];
  /** Returns the only connection of an integration. Throws if there is none, or a choice. */
  onlyConnection(ref: { readonly environment: string; readonly key: string }): Promise<ConnectionRef>;
  /** Keeps what a broker says. Returns why it could not read it. */
  apply(message: EdgeRoutes): Fault | undefined;
  subjects(): readonly RouteSubject[];
  clear(): void;
}

interface RouteMemoryOptions {
  /** Resolves once the memory has the answer; to a fault if there is none. */
  readonly questions: Pick<Questions<Fault | undefined>, "ask">;
  readonly onEvict: (subject: RouteSubject) => void;
  readonly silence: Pick<BrokerSilence, "isTooLong">;
  readonly world: World;
}

interface HeldRoutes {
  readonly subject: RouteSubject;
  readonly routes: readonly EdgeRoute[];
  readonly hosts: readonly string[];
  table: RouteTable | undefined;
}

const mostSubjects = 1_024;
/** Choices that were made from a table are made again after this time. */
const freshMs = 250;
const maxNamed = 5;

export function createRouteMemory({ questions, onEvict, silence, world }: RouteMemoryOptions): RouteMemory {
  const { metrics } = world;
  const held = new LRUCache<string, HeldRoutes>({
    max: mostSubjects,
    dispose: ({ subject }, _name, why) => {
      if (why === "evict") onEvict(subject);
    },
  });
  const showCount = () => metrics.edgeHeld.set({ kind: "routes" }, held.size);

  const find = (subject: RouteSubject) => (silence.isTooLong() ? undefined : held.get(nameOf(subject)));

  async function ask(subject: RouteSubject): Promise<HeldRoutes> {
    const fault = await questions.ask({ kind: "routes", subject });
    if (fault !== undefined) throw fault;
    const answer = held.get(nameOf(subject));
    if (answer === undefined) throw new Fault("brokers_unavailable", "the broker went away with its answer");
    return answer;
  }

  function tableOf(environment: string, one: HeldRoutes): RouteTable {
    const nowMs = performance.now();
    if (one.table !== undefined && one.table.freshUntilMs > nowMs) return one.table;
    one.table = { environment, rows: one.routes, freshUntilMs: nowMs + freshMs };
    return one.table;
  }

  return {
    tables: {
      of(environment, origin) {
        const subject = originSubject(origin);
        const known = find(subject);
        if (known !== undefined) return tableOf(environment, known);
        return ask(subject).then((one) => tableOf(environment, one));
      },
    },
    hostsFor: (origin) => held.peek(nameOf(originSubject(origin)))?.hosts ?? [],
    async onlyConnection({ environment, key }) {
      const subject = integrationSubject(key);
      const { routes } = find(subject) ?? (await ask(subject));
      const ids = routes.flatMap((route) => route.ids);
      const [id] = ids;
      if (id === undefined) {
        const message = `the integration "${key}" has no connection yet; connect an account first`;
        throw new Fault("unknown_connection", message);
      }
      if (ids.length > 1) {
        const choices = `${ids.slice(0, maxNamed).join(", ")}${ids.length > maxNamed ? ", …" : ""}`;
        throw new Fault("invalid_headers", `send the header Connection-Id with one of the connections: ${choices}`);
      }
      return { $typeName: "latchkey.v1.ConnectionRef", environment, integration: key, id };
    },
    apply({ requestId, subject, routes, hosts, fault }) {
      if (fault !== undefined) return faultOf(fault);
      if (subject === undefined) return new Fault("brokers_unavailable", "the broker's answer is without an address");
      const name = nameOf(subject);
      // The broker had not read yet that the address was forgotten.
      if (requestId === 0n && !held.has(name)) return undefined;
      held.set(name, { subject, routes, hosts, table: undefined });
      showCount();
      return undefined;
    },
    subjects: () => [...held.values()].map(({ subject }) => subject),
    clear() {
      held.clear();
      showCount();
    },
  };
}

const nameOf = ({ subject }: RouteSubject): string => `${subject.case ?? ""} ${subject.value ?? ""}`;

const originSubject = (value: string): RouteSubject => ({
  $typeName: "latchkey.v1.RouteSubject",
  subject: { case: "origin", value },
});

const integrationSubject = (value: string): RouteSubject => ({
  $typeName: "latchkey.v1.RouteSubject",
  subject: { case: "integration", value },
});
