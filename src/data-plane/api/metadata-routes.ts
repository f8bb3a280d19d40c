import { create, type JsonObject } from "@bufbuild/protobuf";
import { Fault } from "../../base/fault.ts";
import type { Broker } from "../../broker/broker.ts";
import { type ReadingNotes, readFields } from "../../core/dialect/json-fields.ts";
import { Scope } from "../../gen/latchkey/v1/access_pb.ts";
import { ConnectionRefSchema } from "../../gen/latchkey/v1/connection_pb.ts";
import { callerIn, type Route } from "../server/routes.ts";

/** Both spellings: the product description has one, the published SDK the other. */
const paths = ["/connection/metadata", "/connections/metadata"];
/** One call changes up to this many connections, all or none. */
const maxConnections = 1_000;

export function metadataRoutes({ connections, countIgnored }: Broker): Route[] {
  const route = (path: string, replace: boolean): Route => ({
    method: replace ? "POST" : "PATCH",
    path,
    scope: Scope.CONNECTIONS_WRITE,
    takesBody: true,
    async answer(request) {
      const { actor, environment } = callerIn(request);
      request.query.end();
      const { ids, integration, metadata, echo, ignored } = readBody(request.body);
      countIgnored(path, ignored);
      const updates = ids.map((id) => {
        const ref = create(ConnectionRefSchema, { environment, integration, id });
        return { ref, metadata, replace, expectedRevision: 0n };
      });
      await connections.updateMetadata(updates, actor);
      return { status: replace ? 201 : 200, body: echo };
    },
  });
  return paths.flatMap((path) => [route(path, false), route(path, true)]);
}

function readBody(body: JsonObject) {
  const findings: ReadingNotes = { mistakes: [], ignored: [] };
  const fields = readFields(body, { path: [], findings });
  const integration = fields.requiredText("provider_config_key");
  const named = body["connection_id"];
  fields.has("connection_id");
  const ids = Array.isArray(named) ? named : [named];
  const valid = ids.filter((id) => typeof id === "string" && id !== "") as string[];
  if (ids.length === 0 || valid.length < ids.length || ids.length > maxConnections) {
    fields.refuse("connection_id", `must be an id, or an array of 1 to ${maxConnections} of them`);
  }
  if (!fields.has("metadata")) fields.refuse("metadata", "is required");
  const metadata = fields.json("metadata") ?? {};
  fields.ignoreRest();
  if (findings.mistakes.length > 0) {
    throw new Fault("invalid_body", "the metadata cannot be set", { mistakes: findings.mistakes });
  }
  // Echo only the fields that were read: the rest of the body has no size limits.
  const echo = { connection_id: named ?? "", provider_config_key: integration, metadata };
  return { ids: [...new Set(valid)], integration, metadata, echo, ignored: findings.ignored.length };
}
