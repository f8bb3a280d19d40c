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
import { devPage } from "./page.ts";
import { readyApiKey, readyUser } from "./sandbox/auth/access.ts";
import { allowPrivateFor } from "./sandbox/providers.ts";
import { type Sandbox, startSandbox } from "./sandbox/sandbox.ts";
import { connections, seed } from "./seed.ts";
import type { ScriptsFolder } from "./tour.ts";

const defaultSandbox = "127.0.0.1:3010";
const defaultStore = "level:./.latchkey";
/** The folder of scripts that is used if it exists and no other is configured. */
const usualScripts = "./scripts";
/** The address that the command line uses without `--address`. */
const defaultControl = "http://127.0.0.1:3004";

/** Runs `serve` with its own store and a sandbox, connects the sandbox's test user, and prints commands to paste. */
export async function dev(process: Process, options: Readonly<Record<string, string | true>>): Promise<number> {
  const address = String(options["sandbox"] ?? defaultSandbox);
  const listen = parseListenAddress(address);
  if (listen?.kind !== "tcp") throw new UsageMistake("--sandbox must be host:port, or :0 for any port");
  let sandbox: Sandbox;
  try {
    sandbox = await startSandbox({
      listen,
      onError: (error) => void process.stderr.write(`latchkey: ${error instanceof Error ? error.stack : error}\n`),
    });
  } catch (error) {
    process.stderr.write(`latchkey: the sandbox cannot listen on ${address}: ${reasonOf(error)}\n`);
    return exitCodes.failed;
  }
  try {
    return await serve({
      process,
      env: variablesFor(process.env, sandbox.origin),
      async onStarted(sidecar, config) {
        // An application under development runs on this machine too, on any port.
        sidecar.broker.origins.allowLocal();
        sidecar.refuseMisspelled();
        const seeded = await seed(sidecar, sandbox);
        const access = accessOf(sidecar, config, process.env);
        const scripts = scriptsOf(sidecar, config, seeded.kept);
        const accepted = { apiKey: readyApiKey, user: readyUser };
        process.stdout.write(devPage({ ...access, ...seeded, scripts, sandbox: sandbox.origin, accepted }));
      },
    });
  } finally {
    // The sandbox closes last: a token refresh may still need it while latchkey stops.
    await sandbox.close();
  }
}

function reasonOf(error: unknown): string {
  const { code, message } = error as NodeJS.ErrnoException;
  if (code !== "EADDRINUSE") return message;
  return "the port is in use, perhaps by another `latchkey dev` or `latchkey sandbox`; stop that, or use --sandbox :0";
}

type Variables = Process["env"];

/** Variables that override the environment's: missing keys, and the sandbox's address as allowed for plain HTTP. */
function variablesFor(env: Variables, sandbox: string): Record<string, string> {
  const isSet = (name: string) => Boolean(env[name] || env[`${name}_FILE`]);
  const [, folder] = /^level:(.+)$/.exec(env["LATCHKEY_STORE"] || (isSet("LATCHKEY_STORE") ? "" : defaultStore)) ?? [];
  const needsSealKey = folder !== undefined && !isSet("LATCHKEY_SEAL_KEYS");
  // A configuration file may declare environments without `dev`, and a database stores no secret key.
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

/** The developer's scripts, and a sync or event to try on a sample connection. An action may need an input. */
function scriptsOf(
  { broker }: Sidecar,
  { scriptsFolder: folder }: Config,
  kept: readonly string[],
): ScriptsFolder | undefined {
  if (folder === undefined) return undefined;
  const all = broker.scripts.all();
  const connection = ({ integration }: { readonly integration: string }) =>
    connections.find((one) => one.startsWith(`${integration}/`) && !kept.includes(one));
  const script =
    all.find((one) => one.kind === "sync" && connection(one) !== undefined) ??
    all.find((one) => one.kind === "event" && connection(one) !== undefined);
  const trial = script && [connection(script) ?? "", script.name, "--kind", script.kind];
  return { folder, ...(trial && { trial }) };
}

/** The addresses and keys of this latchkey, and the flags with which the command line finds it. */
function accessOf({ addresses }: Sidecar, { secretKey = "", adminKey = "", store }: Config, env: Variables) {
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
    storeLocation: folder ?? describeStoreLocation(store),
    // A checkout has no `latchkey` on the path.
    latchkey: ["start", "latchkey"].includes(env["npm_lifecycle_event"] ?? "") ? "npm run -s latchkey --" : "latchkey",
    flags: [...(control === defaultControl ? [] : ["--address", control]), ...key],
  };
}
