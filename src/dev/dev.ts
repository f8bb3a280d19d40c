import { statSync } from "node:fs";
import { join, resolve } from "node:path";
import { parseListenAddress } from "../base/http/listener.ts";
import { newSecretKey } from "../base/ids.ts";
import { sealKeyFile, secretKeyFile } from "../cli/process/key-files.ts";
import type { Process } from "../cli/process/process.ts";
import { serve } from "../cli/process/serve.ts";
import { exitCodes } from "../cli/terminal/exit-codes.ts";
import { UsageMistake } from "../cli/terminal/usage-mistake.ts";
import type { Config } from "../config/config.ts";
import type { Sidecar } from "../sidecar.ts";
import { describeStoreLocation } from "../store/location.ts";
import { devPage, type Scripts } from "./page.ts";
import { readyApiKey, readyUser } from "./sandbox/auth/access.ts";
import { allowPrivateFor } from "./sandbox/providers.ts";
import { type Sandbox, startSandbox } from "./sandbox/sandbox.ts";
import { connections, seed } from "./seed.ts";

const defaultSandbox = "127.0.0.1:3010";
const defaultStore = "level:./.latchkey";
/** The folder of scripts, where it is there and nobody has named another. */
const usualScripts = "./scripts";
/** Where the command line looks when it is told nothing. */
const defaultControl = "http://127.0.0.1:3004";

/** `serve` with a store of its own, the sandbox beside it, connections to that, and lines to paste. */
export async function dev(process: Process, options: Readonly<Record<string, string | true>>): Promise<number> {
  const wanted = String(options["sandbox"] ?? defaultSandbox);
  const listen = parseListenAddress(wanted);
  if (listen?.kind !== "tcp") throw new UsageMistake("--sandbox must be host:port, or :0 for any port");
  let sandbox: Sandbox;
  try {
    sandbox = await startSandbox({
      listen,
      onError: (error) => void process.stderr.write(`latchkey: ${error instanceof Error ? error.stack : error}\n`),
    });
  } catch (error) {
    process.stderr.write(`latchkey: the sandbox cannot listen on ${wanted}: ${reasonOf(error)}\n`);
    return exitCodes.failed;
  }
  try {
    return await serve({
      process,
      env: variablesFor(process.env, sandbox.origin),
      async onStarted(sidecar, config) {
        // An application under development is on this machine as well, at any port.
        sidecar.broker.origins.allowLocal();
        const furnished = await seed(sidecar, sandbox);
        const places = placesOf(sidecar, config, process.env);
        const scripts = scriptsOf(sidecar, config, furnished.left);
        const accepted = { apiKey: readyApiKey, user: readyUser };
        process.stdout.write(devPage({ ...places, ...furnished, scripts, sandbox: sandbox.origin, accepted }));
      },
    });
  } finally {
    // Last: what is being renewed while latchkey stops still needs its provider.
    await sandbox.close();
  }
}

function reasonOf(error: unknown): string {
  const { code, message } = error as NodeJS.ErrnoException;
  if (code !== "EADDRINUSE") return message;
  return "something else does, another `latchkey dev` or `latchkey sandbox` perhaps; end that, or say --sandbox :0";
}

type Variables = Process["env"];

/** Over the environment's own: the keys that are missing, and the one address that may be spoken to in the open. */
function variablesFor(env: Variables, sandbox: string): Record<string, string> {
  const isSet = (name: string) => Boolean(env[name] || env[`${name}_FILE`]);
  const [, folder] = /^level:(.+)$/.exec(env["LATCHKEY_STORE"] || (isSet("LATCHKEY_STORE") ? "" : defaultStore)) ?? [];
  const needsSealKey = folder !== undefined && !isSet("LATCHKEY_SEAL_KEYS");
  // A configuration file may declare other environments and not ours, and a database keeps no key for us.
  const needsSecretKey = !isSet("LATCHKEY_SECRET_KEY") && (folder === undefined || Boolean(env["LATCHKEY_CONFIG"]));
  return {
    LATCHKEY_ALLOW_PRIVATE: [env["LATCHKEY_ALLOW_PRIVATE"] ?? "", allowPrivateFor(sandbox)]
      .filter((entry) => entry.trim() !== "")
      .join(","),
    ...(!isSet("LATCHKEY_SCRIPTS") && isFolder(usualScripts) ? { LATCHKEY_SCRIPTS: usualScripts } : {}),
    ...(needsSealKey ? { LATCHKEY_SEAL_KEYS: sealKeyFile(folder).value } : {}),
    ...(needsSecretKey
      ? { LATCHKEY_SECRET_KEY: folder === undefined ? newSecretKey() : secretKeyFile(folder).value }
      : {}),
  };
}

const isFolder = (path: string): boolean => statSync(path, { throwIfNoEntry: false })?.isDirectory() === true;

/** The customer's scripts, and one that can be tried on a connection of ours as it is: an action may need an input. */
function scriptsOf(
  { broker }: Sidecar,
  { scriptsFolder: folder }: Config,
  left: readonly string[],
): Scripts | undefined {
  if (folder === undefined) return undefined;
  const all = broker.scripts.all();
  const connection = ({ integration }: { readonly integration: string }) =>
    connections.find((one) => one.startsWith(`${integration}/`) && !left.includes(one));
  const script =
    all.find((one) => one.kind === "sync" && connection(one) !== undefined) ??
    all.find((one) => one.kind === "event" && connection(one) !== undefined);
  const trial = script && [connection(script) ?? "", script.name, "--kind", script.kind];
  return { folder, ...(trial && { trial }) };
}

/** Where things are, and what the command line must be told of it. */
function placesOf({ addresses }: Sidecar, { secretKey = "", adminKey = "", store }: Config, env: Variables) {
  const { data = "", control = "", ops = "" } = addresses;
  const folder = store.kind === "level" ? store.folder : undefined;
  const isPinned = Boolean(env["LATCHKEY_ADMIN_KEY"] || env["LATCHKEY_ADMIN_KEY_FILE"]);
  const key =
    isPinned || folder === undefined
      ? ["--key", adminKey]
      : resolve(folder) === resolve(".latchkey")
        ? []
        : ["--key-file", join(folder, "admin-key")];
  return {
    data,
    control,
    ops,
    secretKey,
    place: folder ?? describeStoreLocation(store),
    // From a checkout there is no `latchkey` on the path.
    latchkey: ["start", "latchkey"].includes(env["npm_lifecycle_event"] ?? "") ? "npm run -s latchkey --" : "latchkey",
    flags: [...(control === defaultControl ? [] : ["--address", control]), ...key],
  };
}
