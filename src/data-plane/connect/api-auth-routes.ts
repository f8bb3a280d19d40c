import { create, type JsonObject } from "@bufbuild/protobuf";
import { Fault } from "../../base/fault.ts";
import { readCredentials } from "../../core/dialect/credentials.ts";
import { type ReadFindings, readFields } from "../../core/dialect/json-fields.ts";
import { CredentialsSchema } from "../../gen/latchkey/v1/credentials_pb.ts";
import type { ConnectRoute } from "./connect-route.ts";
import { sessionOf } from "./session-token.ts";

const row = { method: "POST", browser: "script" } as const;

/** Credentials that an end user types in, by the SDK's type names. */
export const apiAuthRoutes: readonly ConnectRoute[] = [
  { ...row, path: "/api-auth/api-key/:key", takesBody: true, handle: connectWith("API_KEY") },
  { ...row, path: "/api-auth/basic/:key", takesBody: true, handle: connectWith("BASIC") },
  { ...row, path: "/oauth2/auth/:key", takesBody: true, handle: connectWith("OAUTH2_CC") },
  // The frontend SDK's `create`, which sends no body.
  { ...row, path: "/auth/unauthenticated/:key", handle: connectWith("NONE") },
];

/** Returns the handler that connects with typed credentials of one type. */
function connectWith(type: string): ConnectRoute["handle"] {
  return async ({ broker }, { params, query, headers, body }) => {
    const session = await sessionOf(broker, { headers, query });
    const values = query.map("params");
    query.end();
    const credentials = credentialsOf({ ...body, type });
    const integration = params["key"] ?? "";
    const { ref } = await broker.authorizations.connect({ session, integration, credentials, params: values });
    return { status: 200, body: { providerConfigKey: integration, connectionId: ref?.id ?? "" } };
  };
}

/** Reads typed credentials, in the SDK's field names. */
export function credentialsOf(typed: JsonObject) {
  const findings: ReadFindings = { mistakes: [], ignored: [] };
  const kind = readCredentials(readFields(typed, { path: [], findings }));
  if (findings.mistakes.length > 0 || kind === undefined) {
    throw new Fault("invalid_body", "the credentials are not valid", { mistakes: findings.mistakes });
  }
  return create(CredentialsSchema, { kind });
}
