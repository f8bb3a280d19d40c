import { create } from "@bufbuild/protobuf";
import type { Broker } from "../../broker/broker.ts";
import { Scope } from "../../gen/latchkey/v1/access_pb.ts";
import { ConnectionRefSchema } from "../../gen/latchkey/v1/connection_pb.ts";
import type { RouteAnswer } from "../server/routes.ts";
import { type BodyField, inBody } from "./body-fields.ts";
import { type JsonRequest, type JsonRoute, jsonRoute, type NoFields } from "./json-route.ts";

/** Limits the connections of one call, which changes all or none. */
const maxConnections = 1_000;

/** Reads one id, or an array of ids. */
const connectionIds: BodyField<string | string[]> = {
  type: "array",
  items: { type: "string", description: "an id; a single one may be sent without the array" },
  maxItems: maxConnections,
  required: true,
  read(fields, name) {
    const value = fields.raw(name) ?? "";
    const ids = Array.isArray(value) ? value : [value];
    const valid = ids.filter((id): id is string => typeof id === "string" && id !== "");
    if (ids.length > 0 && valid.length === ids.length && ids.length <= maxConnections) {
      return Array.isArray(value) ? valid : (valid[0] ?? "");
    }
    fields.refuse(name, `must be a connection id, or an array of 1 to ${maxConnections} ids`);
    return "";
  },
};

const metadataBody = {
  provider_config_key: inBody.requiredText,
  connection_id: connectionIds,
  metadata: inBody.requiredJson,
};

const row = { scope: Scope.CONNECTIONS_WRITE, body: metadataBody } as const;

/** Two spellings of each path: the product description has one, the published SDK the other. */
export const metadataRoutes: readonly JsonRoute[] = [
  jsonRoute({ ...row, method: "PATCH", path: "/connection/metadata", handle: changeMetadata }),
  jsonRoute({ ...row, method: "POST", path: "/connection/metadata", handle: replaceMetadata }),
  jsonRoute({ ...row, method: "PATCH", path: "/connections/metadata", handle: changeMetadata }),
  jsonRoute({ ...row, method: "POST", path: "/connections/metadata", handle: replaceMetadata }),
];

type MetadataRequest = JsonRequest<NoFields, typeof metadataBody>;

async function changeMetadata(request: MetadataRequest, broker: Broker): Promise<RouteAnswer> {
  await updateMetadata(request, broker, false);
  return { status: 200, body: echoOf(request) };
}

async function replaceMetadata(request: MetadataRequest, broker: Broker): Promise<RouteAnswer> {
  await updateMetadata(request, broker, true);
  return { status: 201, body: echoOf(request) };
}

async function updateMetadata(request: MetadataRequest, { connections }: Broker, replace: boolean): Promise<void> {
  const { environment, actor, body } = request;
  const { provider_config_key: integration, connection_id: named, metadata } = body;
  const updates = [...new Set([named].flat())].map((id) => {
    const ref = create(ConnectionRefSchema, { environment, integration, id });
    return { ref, metadata, replace, expectedRevision: 0n };
  });
  await connections.updateMetadata(updates, actor);
}

/** Returns only the fields that were read: the rest of the body has no size limits. */
const echoOf = ({ body: { connection_id, provider_config_key, metadata } }: MetadataRequest) => ({
  connection_id,
  provider_config_key,
  metadata,
});
