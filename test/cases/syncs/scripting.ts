import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { temporaryFolder } from "../../support/sidecar/harness.ts";
import { provider, startWatching } from "../channels/channels.ts";

/** Scripts by their path within the integration's folder, such as `syncs/events.ts`. */
export type Scripts = Readonly<Record<string, string>>;

export function writeScripts(folder: string, scripts: Scripts, integration = provider): void {
  for (const [path, text] of Object.entries(scripts)) {
    const file = join(folder, integration, path);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, text);
  }
}

/** A sidecar that runs scripts, an application, and a provider with calendars. */
export async function startScripted(scripts: Scripts, options: Parameters<typeof startWatching>[0] = {}) {
  const folder = await temporaryFolder();
  writeScripts(folder, scripts);
  const watching = await startWatching({ ...options, env: { ...options.env, LATCHKEY_SCRIPTS: folder } });
  return Object.assign(watching, {
    scriptsFolder: folder,
    /** Processes all due runs and everything they cause. */
    run: () => watching.sidecar.sidecar.broker.keepRuns(),
  });
}
