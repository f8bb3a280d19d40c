import { create, type JsonObject } from "@bufbuild/protobuf";
import { expiryOf } from "../../../auth/token-refresh.ts";
import { checkConnectionConfig, checkMetadata } from "../../../core/connection-rules.ts";
import type { PendingAuthorization } from "../../../gen/latchkey/stored/v1/stored_pb.ts";
import { CredentialsSchema } from "../../../gen/latchkey/v1/credentials_pb.ts";
import type { TokenRules } from "../../../gen/latchkey/v1/provider_pb.ts";
import { valueAt } from "../../../providers/dotted-path.ts";
import type { TokenEndpoint, TokenParties } from "../../tokens/token-endpoint.ts";
import type { CallbackAnswer } from "./callback.ts";
import { AuthorizationFailure, refusedOr } from "./failure.ts";
import type { GrantResult } from "./grant-result.ts";

interface InstallationRequest {
  readonly answer: CallbackAnswer;
  readonly parties: TokenParties;
  readonly pending: PendingAuthorization;
  readonly rules: TokenRules;
}

/** Turns a callback that names the installation of an app into credentials, once the installation is proven. */
export type Install = (request: InstallationRequest) => Promise<GrantResult>;

export function createInstallations(tokenEndpoint: Pick<TokenEndpoint, "ask" | "installation">): Install {
  return async ({ answer, parties, pending, rules }) => {
    const { parameters } = refusedOr(answer);
    const { installationProof: proof } = rules;
    const installationId = installationIn(parameters, rules);
    const code = parameters.get("code") ?? "";
    if (code === "" || proof === undefined) {
      throw new AuthorizationFailure(
        "misconfigured",
        "The provider did not say who you are. Tell the operator of the application.",
        "no_code",
      );
    }
    const item = await tokenEndpoint.installation({ ...parties, proof, code, value: installationId });
    if (item === undefined) {
      throw new AuthorizationFailure("refused", "The provider does not list this installation as yours.", "not_listed");
    }
    const connectionConfig = { ...pending.connectionConfig, ...configIn(item, proof.connectionConfig, parties) };
    const app = { appId: parties.integration.oauth?.clientId ?? "", installationId };
    const fields = { app_id: app.appId, installation_id: installationId };
    const tokens = await tokenEndpoint.ask({ ...parties, connectionConfig, grant: { type: "described", fields } });
    const { accessToken, raw } = tokens;
    const value = { ...app, accessToken, raw, ...expiryOf(tokens) };
    return {
      credentials: create(CredentialsSchema, { kind: { case: "app", value } }),
      connectionConfig: { ...connectionConfig, ...tokens.connectionConfig },
      metadata: { ...metadataIn(item, proof.metadata), ...tokens.metadata },
      grantedScopes: [],
      missingScopes: [],
    };
  };
}

/** Returns the installation that a callback names. It is not proven yet: anyone can change a callback. */
function installationIn(parameters: URLSearchParams, { callbackFields }: TokenRules): string {
  const value = parameters.get(callbackFields["installation_id"] ?? "") ?? "";
  if (/^[A-Za-z0-9._~-]{1,255}$/.test(value)) return value;
  throw new AuthorizationFailure(
    "provider_error",
    "The provider named no installation. If it has to be approved there first, begin again afterwards.",
    "no_installation",
  );
}

function found(item: JsonObject, paths: Readonly<Record<string, string>>): JsonObject {
  const values = Object.entries(paths).map(([name, path]) => [name, valueAt(path, item)] as const);
  return Object.fromEntries(
    values.flatMap(([name, value]) => (value === undefined || value === null ? [] : [[name, value]])),
  );
}

function configIn(item: JsonObject, paths: Readonly<Record<string, string>>, { provider }: TokenParties): JsonObject {
  const values = Object.entries(found(item, paths)).map(([name, value]) => [name, String(value)] as const);
  const config = Object.fromEntries(values);
  const fields = provider.connectionFields.filter(({ name }) => Object.hasOwn(config, name));
  if (checkConnectionConfig(config, fields).length === 0) return config;
  throw new AuthorizationFailure("provider_error", "The provider sent an unusable answer.", "connection_config");
}

/** Metadata only helps to find the connection again. */
function metadataIn(item: JsonObject, paths: Readonly<Record<string, string>>): JsonObject {
  const metadata = found(item, paths);
  return checkMetadata(metadata).length === 0 ? metadata : {};
}
