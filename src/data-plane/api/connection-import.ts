import { Fault, type Mistake } from "../../base/fault.ts";
import type { Broker } from "../../broker/broker.ts";
import { ImportMistake, readImportJson } from "../../core/dialect/import-line.ts";
import { Scope } from "../../gen/latchkey/v1/access_pb.ts";
import type { ConnectionImport } from "../../gen/latchkey/v1/connection_pb.ts";
import { misspelledIn } from "../server/mistakes.ts";
import { callerIn, type RouteAnswer, type RouteRequest } from "../server/routes.ts";
import { inBody } from "./body-fields.ts";
import { fullConnection } from "./connection-json.ts";
import { endUserField } from "./end-user-field.ts";
import type { FieldShape } from "./field-shape.ts";
import type { JsonRoute } from "./json-route.ts";

const path = "/connections";

/** The shape of a connection to import. `readImportJson`, which import files use too, reads it. */
const importShape: Readonly<Record<string, FieldShape>> = {
  environment: inBody.text,
  provider_config_key: inBody.requiredText,
  connection_id: inBody.text,
  webhook_url_override: inBody.text,
  metadata: inBody.json,
  connection_config: inBody.json,
  tags: inBody.textMap,
  end_user: endUserField,
  credentials: { type: "object", required: true, description: "by `type`, with the fields of that type" },
};

/** `POST /connections`: imports a connection whose credentials the application already has. */
export const connectionImport: JsonRoute = {
  method: "POST",
  path,
  scope: Scope.CONNECTIONS_WRITE,
  query: {},
  body: importShape,
  answer: importConnection,
};

async function importConnection(broker: Broker, request: RouteRequest): Promise<RouteAnswer> {
  const { actor, environment, caller } = callerIn(request);
  if (request.query.end().length > 0) throw new Fault("invalid_query_params", "the query must be empty");
  const item = readImport(request);
  // A file written for several environments names one on each line; a key opens only one environment.
  await broker.environments.of(caller, item.environment);
  const { connection } = await broker.imports.importOne({ ...item, environment }, actor);
  const mayRead = caller.scopes.has(Scope.CREDENTIALS_READ);
  return { status: 201, body: await fullConnection(broker, connection, mayRead ? item.credentials : undefined) };
}

function readImport({ body, fields }: RouteRequest): ConnectionImport {
  const misspelled: Mistake[] = [];
  try {
    const { connection, ignored } = readImportJson(body, misspelled);
    if (fields.refusesMisspelled && misspelled.length > 0) throw misspelledIn("invalid_body", misspelled, []);
    fields.ignore(ignored);
    return connection;
  } catch (error) {
    if (!(error instanceof ImportMistake)) throw error;
    if (misspelled.length > 0) throw misspelledIn("invalid_body", misspelled, error.mistakes);
    throw new Fault("invalid_body", "the connection is not valid", { mistakes: error.mistakes });
  }
}
