import { readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { parseListenAddress } from "../base/http/listener.ts";
import { newSecretKey } from "../base/ids.ts";
import { commandWord } from "../cli/process/command-word.ts";
import { type DevKey, writeDevState } from "../cli/process/dev-state.ts";
import { sealKeyFile, secretKeyFile } from "../cli/process/key-files.ts";
import type { Process } from "../cli/process/process.ts";
import { serve } from "../cli/process/serve.ts";
import { exitCodes } from "../cli/terminal/exit-codes.ts";
import { UsageMistake } from "../cli/terminal/usage-mistake.ts";
import type { Config } from "../config/config.ts";
import { defaultEnvironment } from "../core/declared.ts";
import type { Sidecar } from "../sidecar.ts";
import { devPage, shellWordOf } from "./page.ts";
import { readyApiKey, readyUser } from "./sandbox/auth/access.ts";
import { allowPrivateFor } from "./sandbox/providers.ts";
import { type Sandbox, startSandbox } from "./sandbox/sandbox.ts";
import { connections, seed } from "./seed.ts";
import type { ScriptsFolder } from "./tour.ts";

const defaultSandbox = "127.0.0.1:3010";
const defaultStore = "level:./.latchkey";
/** The folder of scripts that is used if it exists and no other is configured. */
const usualScripts = "./scripts";

/** Runs `serve` with its own store and a sandbox, connects the sandbox's test user, and prints a first call. */
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
  let removeState = () => {};
  try {
    return await serve({
      process,
      overrides: () => variablesFor(process.env, sandbox.origin),
      async onStarted(sidecar, config) {
        // An application under development runs on this machine too, on any port.
        sidecar.broker.origins.allowLocal();
        sidecar.refuseMisspelled();
        const seeded = await seed(sidecar, sandbox);
        const { data = "", control = "", ops = "" } = sidecar.addresses;
        const keys = keysOf(config);
        const addresses = { data, control, ops, sandbox: sandbox.origin };
        const scripts = scriptsOf(sidecar, config, seeded.kept);
        removeState = writeDevState({
          ...addresses,
          ...keys,
          environment: defaultEnvironment,
          grants: Object.fromEntries(seeded.grants),
          webhookPath: seeded.webhookPath,
          ...(scripts !== undefined && { scripts }),
          accepted: { apiKey: readyApiKey, user: readyUser },
        });
        const keyWord = shellWordOf(keys.secretKey);
        const latchkey = commandWord(process.env);
        process.stdout.write(
          devPage({ ...addresses, dashboard: dashboardOf(sidecar, config), keyWord, latchkey, kept: seeded.kept }),
        );
      },
    });
  } finally {
    removeState();
    // The sandbox closes last: a token refresh may still need it while latchkey stops.
    await sandbox.close();
  }
}

function reasonOf(error: unknown): string {
  const { code, message } = error as NodeJS.ErrnoException;
  if (code !== "EADDRINUSE") return message;
  return "the port is in use, perhaps by another `latchkey dev` or `latchkey sandbox`; stop that, or use --sandbox :0";
}

/** Returns the address of the dashboard; undefined if it is off. */
function dashboardOf({ addresses }: Sidecar, { dashboard: { door } }: Config): string | undefined {
  const address = door && addresses[door];
  return address?.startsWith("http") === true ? `${address}/ui/` : undefined;
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
    ...(isSet("LATCHKEY_UI") ? {} : { LATCHKEY_UI: "on" }),
    // With other ports than the usual ones, several may run at once.
    ...(isSet("LATCHKEY_FORWARD_PROXY_LISTEN") || isSet("LATCHKEY_DATA_LISTEN")
      ? {}
      : { LATCHKEY_FORWARD_PROXY_LISTEN: "127.0.0.1:3008" }),
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

/** The keys of this latchkey. Those that it generated are in files beside the store. */
function keysOf({ secretKey = "", adminKey = "", store }: Config): Record<"secretKey" | "adminKey", DevKey> {
  const inFolder = (name: string, value: string): DevKey => {
    const file = store.kind === "level" ? join(store.folder, name) : undefined;
    return file !== undefined && contentOf(file) === value ? { file } : { value };
  };
  return { secretKey: inFolder("secret-key", secretKey), adminKey: inFolder("admin-key", adminKey) };
}

function contentOf(file: string): string | undefined {
  try {
    return readFileSync(file, "utf8").trim();
  } catch {
    return undefined;
  }
}
