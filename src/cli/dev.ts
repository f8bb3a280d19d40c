import { create } from "@bufbuild/protobuf";
import { Fault } from "../base/fault.ts";
import type { Config } from "../config/config.ts";
import { ConnectionImportSchema } from "../gen/latchkey/v1/connection_pb.ts";
import { IntegrationSchema } from "../gen/latchkey/v1/integration_pb.ts";
import { defaultEnvironment, type Sidecar } from "../sidecar.ts";
import { describeStoreLocation } from "../store/location.ts";
import { sealKeyFile } from "./key-files.ts";
import type { Process } from "./process.ts";
import { serve } from "./serve.ts";

const integration = "example";
const connection = "ada";

/** `serve` with a store of its own and something in it to play with, and lines to paste. */
export function dev(process: Process): Promise<number> {
  const {
    LATCHKEY_STORE: store = "level:./.latchkey",
    LATCHKEY_SEAL_KEYS: keys,
    LATCHKEY_SEAL_KEYS_FILE: keysFile,
  } = process.env;
  const needsKeys = !keys && !keysFile && store.startsWith("level:");
  const env = needsKeys ? { LATCHKEY_SEAL_KEYS: sealKeyFile(store.slice("level:".length)).value } : {};
  return serve({
    process,
    env,
    async onStarted(sidecar, config) {
      await furnish(sidecar);
      process.stdout.write(pageOf(sidecar, config));
    },
  });
}

/** One integration and one connection. What is there already, stays as it is. */
async function furnish({ broker }: Sidecar): Promise<void> {
  const environment = defaultEnvironment;
  try {
    const wanted = create(IntegrationSchema, {
      environment,
      key: integration,
      provider: "example-api-key",
      displayName: "Example",
    });
    await broker.integrations.create(wanted, "dev");
  } catch (error) {
    if (!(error instanceof Fault) || error.code !== "already_exists") throw error;
  }
  const [found] = await broker.connections.getMany([
    { $typeName: "latchkey.v1.ConnectionRef", environment, integration, id: connection },
  ]);
  if (found !== undefined) return;
  const item = create(ConnectionImportSchema, {
    environment,
    integration,
    id: connection,
    credentials: { kind: { case: "apiKey", value: { apiKey: "an-example-key" } } },
    metadata: { emailAddress: "ada@example.com" },
    tags: { tags: { team: "engines" } },
  });
  await broker.imports.importOne(item, "dev");
}

function pageOf({ addresses }: Sidecar, { secretKey = "", adminKey = "", store }: Config): string {
  const { data = "", control = "", ops = "" } = addresses;
  const key = `Authorization: Bearer ${secretKey}`;
  const place = store.kind === "level" ? store.folder : describeStoreLocation(store);
  return `
latchkey is ready.  data ${data}   control ${control}   ops ${ops}

Paste any of these into another terminal:

  # The connection "${connection}" of the integration "${integration}", over JSON
  ${curl(data, `/connections/${connection}?provider_config_key=${integration}`)} -H '${key}'

  # All connections
  ${curl(data, "/connections")} -H '${key}'

  # Set a metadata key
  ${curl(data, "/connection/metadata")} -X PATCH -H '${key}' -H 'Content-Type: application/json' \\
    -d '{"provider_config_key":"${integration}","connection_id":"${connection}","metadata":{"emailAddress":"ada@example.org"}}'

  # The control plane, over gRPC: no proto files needed, the server describes itself
  npx buf curl --protocol grpc --http2-prior-knowledge -H '${key}' \\
    -d '{}' ${control}/latchkey.v1.ConnectionService/ListConnections

  # The same as plain JSON
  ${curl(control, "/latchkey.v1.ConnectionService/ListConnections")} -H '${key}' -H 'Content-Type: application/json' -d '{}'

  # The command line, with the control key
  npm run --silent latchkey -- connections list --environment ${defaultEnvironment} --address ${control} --key ${adminKey}

The keys are for this machine: they and the store lie in ${place}. Stop with Ctrl-C.

`;
}

/** A door on a Unix socket has no address that fits into a URL. */
const curl = (address: string, path: string): string =>
  address.startsWith("unix:")
    ? `curl -s --unix-socket ${address.slice("unix:".length)} 'http://localhost${path}'`
    : `curl -s '${address}${path}'`;
