import { hash } from "node:crypto";
import { readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import type { JsonObject } from "@bufbuild/protobuf";
import type { BrokenScript, Script, ScriptEndpoint, ScriptMistake } from "../core/scripts/script.ts";
import type { Bundle, BundleScript } from "./bundle.ts";
import { type ScriptFile, stampOf } from "./folder.ts";
import { type ManifestMistake, readManifest } from "./manifest.ts";
import { placesOf } from "./stack.ts";
import type { Threads } from "./threads.ts";

/** A script with its runnable code. */
export interface ReadyScript {
  readonly script: Script;
  readonly bundle: Pick<Bundle, "code" | "map" | "base">;
  /** The text of its file. */
  readonly source: string;
}

/** State of a file: the result of its last load, and the version that still runs. */
export interface FolderEntry {
  readonly file: ScriptFile;
  /** The last valid version. */
  readonly ready: ReadyScript | undefined;
  readonly broken: BrokenScript | undefined;
  /** All files in the bundle. */
  readonly inputs: readonly string[];
  readonly stamp: string;
}

export interface FolderReading {
  /** Real path, with links resolved. */
  readonly folder: string;
  readonly prelude: string;
  readonly threads: Pick<Threads, "describe">;
  readonly bundleScript: BundleScript;
}

/** Stamp of a file that could not be loaded for a reason that may lie elsewhere. */
const hostFailed = "not loaded";

/** Loads a file; on mistakes, reports them and keeps the previous version. */
export async function loadScript(
  file: ScriptFile,
  before: FolderEntry | undefined,
  reading: FolderReading,
): Promise<FolderEntry> {
  const { folder, prelude, threads, bundleScript } = reading;
  const known = before?.inputs ?? [join(folder, file.file)];
  const stampBefore = await stampOf(known);
  const bundled = await bundleScript({ folder, file: file.file });
  // A file that changed during the load may have been read in its old state: load it again.
  const isStill = (await stampOf(known)) === stampBefore;
  const stamp = isStill ? await stampOf(bundled.inputs) : "changed while it was read";
  const { inputs } = bundled;
  const rejected = (mistakes: readonly ScriptMistake[], rejectedStamp = stamp): FolderEntry => {
    const { integration, kind, name } = file;
    return {
      file,
      ready: before?.ready,
      broken: { integration, kind, name, file: file.file, mistakes },
      inputs,
      stamp: rejectedStamp,
    };
  };
  if ("mistakes" in bundled) return rejected(bundled.mistakes);

  const { code, base } = bundled;
  const version = hash("sha256", `${prelude}\n${base?.version}\n${code}`).slice(0, 16);
  const described = await threads.describe({ version, code, base });
  if ("failure" in described) {
    const { code: failureCode, message, stack } = described.failure;
    const [place] = placesOf(stack, bundled.map);
    // Perhaps the file is not to blame: another script may have ended the thread. The next look tries once more.
    const again = failureCode === "host_error" && before?.stamp !== hostFailed ? hostFailed : undefined;
    return rejected([{ message, file: place?.file ?? file.file, line: place?.line, column: place?.column }], again);
  }
  const path = join(folder, file.file);
  const [source, { mtimeMs: changedMs }] = await Promise.all([readFile(path, "utf8"), stat(path)]);
  const read = readManifest(file, JSON.parse(described.text) as JsonObject, { version, changedMs });
  if ("mistakes" in read) return rejected(await withPositions(read.mistakes, folder, file));
  return { file, ready: { script: read.script, bundle: bundled, source }, broken: undefined, inputs, stamp };
}

/** Finds the position of the word in the file, as a field name or a call. */
async function withPositions(mistakes: readonly ManifestMistake[], folder: string, { file }: ScriptFile) {
  const lines = (await readFile(join(folder, file), "utf8")).split("\n");
  return mistakes.map(({ message, word }): ScriptMistake => {
    const form = word === undefined ? /^export default\b/ : new RegExp(`(?<![\\w.])${word}\\s*[:(]`);
    const at = lines.findIndex((line) => form.test(line));
    return at === -1
      ? { message, file, line: undefined, column: undefined }
      : { message, file, line: at + 1, column: (lines[at]?.search(form) ?? 0) + 1 };
  });
}

/** Checks endpoints across all scripts: if two claim the same path, the earlier owner keeps it. */
export async function settleEndpoints(
  entries: readonly FolderEntry[],
  before: ReadonlyMap<string, FolderEntry>,
  keyOf: (file: ScriptFile) => string,
  isOwnPath: (endpoint: ScriptEndpoint) => boolean,
  folder: string,
): Promise<readonly FolderEntry[]> {
  const routes = new Map<string, ScriptFile>();
  const isUnchanged = (entry: FolderEntry) =>
    before.get(keyOf(entry.file))?.ready?.script.version === entry.ready?.script.version;
  const settled = new Map<FolderEntry, FolderEntry>();
  for (const entry of [...entries].sort((a, b) => Number(isUnchanged(b)) - Number(isUnchanged(a)))) {
    const { ready, file } = entry;
    const endpoints = ready === undefined || ready.script.kind === "event" ? [] : ready.script.endpoints;
    const found = endpoints.flatMap((endpoint) => {
      const route = `${endpoint.method} ${endpoint.path}`;
      const other = routes.get(route);
      if (isOwnPath(endpoint)) return [`the endpoint ${route} is reserved by Latchkey`];
      if (other !== undefined) return [`the endpoint ${route} is already used by ${other.file}`];
      return [];
    });
    if (found.length === 0) {
      for (const { method, path } of endpoints) routes.set(`${method} ${path}`, file);
      settled.set(entry, entry);
      continue;
    }
    const word = entry.ready?.script.kind === "action" ? "endpoint" : "endpoints";
    const mistakes = await withPositions(
      [...new Set(found)].map((message) => ({ message, word })),
      folder,
      file,
    );
    const { integration, kind, name } = file;
    const last = before.get(keyOf(file))?.ready;
    settled.set(entry, {
      ...entry,
      ready: last?.script.version === ready?.script.version ? undefined : last,
      broken: { integration, kind, name, file: file.file, mistakes: [...(entry.broken?.mistakes ?? []), ...mistakes] },
    });
  }
  return entries.map((entry) => settled.get(entry) ?? entry);
}
