import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import { credentialsJson } from "../../../core/dialect/credentials.ts";
import { connectionFull } from "../../../core/dialect/sdk-json.ts";
import { ToolFailure } from "../../../core/scripts/script.ts";
import { CredentialsSchema } from "../../../gen/latchkey/v1/credentials_pb.ts";
import { secretValues } from "../../audit/secret-values.ts";
import type { Connections } from "../../connections/connections.ts";
import type { Integrations } from "../../setup/integrations.ts";
import type { WebhookUrls } from "../../setup/webhook-urls.ts";
import { paginationJson } from "./pagination-json.ts";
import { scriptRequest } from "./script-request.ts";
import type { SendForScript } from "./script-requests.ts";
import { type NamedTools, scriptActor, type ToolsRun } from "./tool.ts";
import { objectArgument } from "./tool-arguments.ts";

export interface ConnectionToolsOptions {
  readonly send: SendForScript;
  readonly connections: Pick<Connections, "getMany" | "updateMetadata">;
  readonly integrations: Pick<Integrations, "get">;
  readonly urls: WebhookUrls;
  /** Returns the variables of an environment's scripts: names and values. */
  readonly variablesOf: (environment: string) => readonly { readonly name: string; readonly value: string }[];
}

/** Minimum length of a redacted value: shorter values would match parts of ordinary words. */
const minHiddenLength = 8;

/** Tools for requests to the provider, and for the data of the connection, its integration and its environment. */
export function createConnectionTools(options: ConnectionToolsOptions): NamedTools {
  const { send, connections, integrations, urls, variablesOf } = options;

  async function withMetadata({ ref, isDryRun, log }: ToolsRun, given: JsonValue | undefined, replace: boolean) {
    const metadata = objectArgument(given, "metadata");
    if (isDryRun) log.info("the metadata would be changed", { keys: Object.keys(metadata).join(", ") });
    else await connections.updateMetadata([{ ref, metadata, replace, expectedRevision: 0n }], scriptActor);
    return undefined;
  }

  const integrationOf = async ({ ref }: ToolsRun) =>
    (await integrations.get({ environment: ref.environment, key: ref.integration })).value;

  return {
    proxy: async ({ live, signal, noteSent, script, isDraft = false }, [request]) =>
      send({ live, signal, noteSent, script, isDraft }, scriptRequest(request)),
    async getConnection(run): Promise<JsonObject> {
      const { connection, integration, credentials } = await run.live();
      if (!integration.credentialsInScripts) return connectionFull(connection, undefined);
      run.log.hide(...secretValues(CredentialsSchema, credentials));
      return connectionFull(connection, credentials);
    },
    async getMetadata({ live, ref, isDryRun }) {
      const { connection } = await live();
      // Read the current metadata, which may be newer than the connection's credentials.
      const found = isDryRun ? undefined : (await connections.getMany([ref]))[0];
      return (found ?? connection).metadata ?? {};
    },
    setMetadata: (run, [metadata]) => withMetadata(run, metadata, true),
    updateMetadata: (run, [metadata]) => withMetadata(run, metadata, false),
    async getIntegration(run) {
      const { key, provider, displayName } = await integrationOf(run);
      return { unique_key: key, provider, display_name: displayName };
    },
    getWebhookURL: async (run) => urls.of(await integrationOf(run)),
    async getEnvironmentVariables({ ref, log }) {
      const variables = variablesOf(ref.environment);
      log.hide(...variables.map(({ value }) => value).filter((value) => value.length >= minHiddenLength));
      return variables.map(({ name, value }) => ({ name, value }));
    },
    async getToken(run) {
      const { credentials, integration } = await run.live();
      if (!integration.credentialsInScripts) {
        throw new ToolFailure("missing_scope", "scripts of this integration may use credentials, but not read them");
      }
      run.log.hide(...secretValues(CredentialsSchema, credentials));
      const shown = credentialsJson(credentials);
      return shown["access_token"] ?? shown["token"] ?? shown;
    },
    async paginationOf(run) {
      return paginationJson((await run.live()).provider.proxy?.pagination);
    },
  };
}
