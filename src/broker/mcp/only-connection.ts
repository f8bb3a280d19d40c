import { create } from "@bufbuild/protobuf";
import { createLateCache } from "../../base/caches/late-cache.ts";
import { Fault } from "../../base/fault.ts";
import { type ConnectionRef, ConnectionRefSchema } from "../../gen/latchkey/v1/connection_pb.ts";
import type { ConnectionCollections } from "../connections/connection-collections.ts";
import type { IntegrationRef } from "../setup/integration-records.ts";

/** Returns the connection of an integration that has only one. Throws if there is none, or a choice. */
export type OnlyConnection = (ref: IntegrationRef) => Promise<ConnectionRef>;

/** A second connection is noticed after this time. */
const keptMs = 1_000;
const maxNamed = 5;

export function createOnlyConnection({ connections }: Pick<ConnectionCollections, "connections">): OnlyConnection {
  const known = createLateCache<ConnectionRef>({ max: 1_000, ttl: keptMs });

  return async ({ environment, key }) => {
    const at = `${environment}\0${key}`;
    const cached = known.get(at);
    if (cached !== undefined) return cached;
    const page = await connections.page({ under: [environment, key], limit: maxNamed + 1 });
    const ids = page.map(({ value }) => value.ref?.id ?? "");
    const [id] = ids;
    if (id === undefined) {
      throw new Fault("unknown_connection", `the integration "${key}" has no connection yet; connect an account first`);
    }
    if (ids.length > 1) {
      const more = ids.length > maxNamed ? ", …" : "";
      const choices = `${ids.slice(0, maxNamed).join(", ")}${more}`;
      throw new Fault("invalid_headers", `send the header Connection-Id with one of the connections: ${choices}`);
    }
    const ref = create(ConnectionRefSchema, { environment, integration: key, id });
    known.set(at, ref);
    return ref;
  };
}
