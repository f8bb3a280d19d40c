import type { World } from "../base/world.ts";
import type { ConfigChange, ConfigInForce, PlacedSetting } from "../core/config-in-force.ts";
import { type Changeable, type Config, ConfigMistakes } from "./config.ts";
import type { FileReader } from "./secrets.ts";

/** The same, as the process keeps it. */
export interface KeptConfig extends ConfigInForce {
  noteApplied(changed: Changeable): void;
  noteRejected(error: unknown): void;
}

/** Parts of the file that a reload does not apply, see docs/configuration.md. */
const fixedParts =
  /^(?:limits|scripts|aliases|tls|egress|proxy\.(?:connect_ms|answer_ms|idle_ms|requests_per_host|waiting_per_host))(?:\.|$)/;
const mostDifferences = 500;

export function createConfigInForce({ configFile: file, source, warnings }: Config, world: World): KeptConfig {
  const atStart = source.text;
  let inForce = atStart;
  let last:
    | { readonly atMs: number; readonly before?: string | undefined; readonly mistakes?: readonly string[] }
    | undefined;

  async function settingsWith(text: string | undefined): Promise<readonly PlacedSetting[]> {
    const { placedSettings } = await import("./show-config.ts");
    return placedSettings({ env: source.env, file, files: readerOf(text) });
  }

  async function differences(before: string | undefined, after: string | undefined): Promise<readonly ConfigChange[]> {
    if (before === undefined || after === undefined || before === after) return [];
    const { diffConfig } = await import("./diff-config.ts");
    const files: FileReader = { read: (path) => ({ text: path === "before" ? before : after, mode: 0o600 }) };
    return diffConfig({ before: "before", after: "after", files });
  }

  async function waiting(): Promise<readonly string[]> {
    const all = await differences(atStart, inForce);
    return all.flatMap(({ path }) => (fixedParts.test(path) ? [path] : []));
  }

  return {
    file,
    warnings,
    async settings() {
      const now = await settingsWith(inForce);
      if (inForce === atStart) return now.map((one) => ({ ...one, needsRestart: false }));
      const late = new Set(await waiting());
      const started = (await settingsWith(atStart)).filter(({ name }) => fixedParts.test(name));
      // A value that a reload does not apply is still that of the start.
      return [...now.filter(({ name }) => !fixedParts.test(name)), ...started].map((one) => ({
        ...one,
        needsRestart: late.has(one.name),
      }));
    },
    async lastReload() {
      if (last === undefined) return undefined;
      const { atMs, before, mistakes } = last;
      const found = mistakes === undefined ? await differences(before, inForce) : [];
      return {
        atMs,
        mistakes,
        differences: found
          .slice(0, mostDifferences)
          .map((one) => ({ ...one, needsRestart: fixedParts.test(one.path) })),
      };
    },
    waiting,
    noteApplied({ text }) {
      last = { atMs: world.now(), before: inForce };
      inForce = text;
    },
    noteRejected(error) {
      const mistakes = error instanceof ConfigMistakes ? error.mistakes : [(error as Error).message];
      last = { atMs: world.now(), mistakes };
    },
  };
}

const readerOf = (text = "{}"): FileReader => ({ read: () => ({ text, mode: 0o600 }) });
