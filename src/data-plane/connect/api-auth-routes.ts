import { create, type JsonObject } from "@bufbuild/protobuf";
import { Fault } from "../../base/fault.ts";
import type { Broker } from "../../broker/broker.ts";
import { readCredentials } from "../../core/dialect/credentials.ts";
import { type ReadingNotes, readFields } from "../../core/dialect/json-fields.ts";
import { CredentialsSchema } from "../../gen/latchkey/v1/credentials_pb.ts";
import type { Route } from "../server/routes.ts";
import { sessionOf } from "./session-token.ts";

/** Credentials that an end user types in, by the SDK's type names. */
const paths = {
  "/api-auth/api-key/:key": "API_KEY",
  "/api-auth/basic/:key": "BASIC",
  "/oauth2/auth/:key": "OAUTH2_CC",
  // The frontend SDK's `create`, which sends no body.
  "/auth/unauthenticated/:key": "NONE",
} as const;

export const apiAuthRoutes = (broker: Broker): Route[] =>
  Object.entries(paths).map(([path, type]) => ({
    method: "POST",
    path,
    scope: undefined,
    isPublic: true,
    browser: "script",
    ...(type === "NONE" ? {} : { takesBody: true }),
    async answer({ params, query, headers, body }) {
      const session = await sessionOf(broker, { headers, query });
      const given = query.map("params");
      query.end();
      const credentials = credentialsOf({ ...body, type });
      const integration = params["key"] ?? "";
      const { ref } = await broker.authorizations.connect({ session, integration, credentials, params: given });
      return { status: 200, body: { providerConfigKey: integration, connectionId: ref?.id ?? "" } };
    },
  }));

/** Reads typed credentials, in the SDK's field names. */
export function credentialsOf(typed: JsonObject) {
  const findings: ReadingNotes = { mistakes: [], ignored: [] };
  const kind = readCredentials(readFields(typed, { path: [], findings }));
  if (findings.mistakes.length > 0 || kind === undefined) {
    throw new Fault("invalid_body", "the credentials are not complete", { mistakes: findings.mistakes });
  }
  return create(CredentialsSchema, { kind });
}
