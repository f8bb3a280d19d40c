import { spawnSync } from "node:child_process";
import { readdirSync, readFileSync, statSync } from "node:fs";
import { basename, join } from "node:path";
import { parseAllDocuments } from "yaml";
import { root } from "../../bin/steps.ts";

// biome-ignore lint/suspicious/noExplicitAny: a manifest is what its schema says, and that is checked.
export type Manifest = any;

export const kubernetes = join(root, "deploy/kubernetes");
export const overlays = readdirSync(join(kubernetes, "overlays"));

const documentsIn = (text: string): Manifest[] =>
  // Kubernetes' own tools read YAML 1.1, where a number with a leading 0 is octal; in 1.2 it is not.
  parseAllDocuments(text, { version: "1.1" }).map((one) => {
    if (one.errors.length > 0) throw one.errors[0];
    return one.toJS();
  });

/** The output of `kubectl kustomize` for a folder; undefined without a recent kubectl. */
export function kubectlRenders(folder: string): Manifest[] | undefined {
  const { status, stdout } = spawnSync("kubectl", ["kustomize", folder], { encoding: "utf8" });
  return status === 0 ? documentsIn(stdout) : undefined;
}

/** Debian's is of a time before components. */
export function hasKubectl(): boolean {
  const { status, stdout } = spawnSync("kubectl", ["version", "--client"], { encoding: "utf8" });
  return status === 0 && /Kustomize Version: v[5-9]/.test(stdout);
}

interface Kustomization {
  readonly resources?: readonly string[];
  readonly components?: readonly string[];
  readonly configMapGenerator?: readonly Generated[];
  readonly generatorOptions?: GeneratorOptions;
  readonly labels?: readonly { readonly pairs: Readonly<Record<string, string>> }[];
  readonly patches?: readonly { readonly target: { kind: string; name: string }; readonly path: string }[];
}

interface Generated {
  readonly name: string;
  readonly files: readonly string[];
  readonly options?: GeneratorOptions;
}

interface GeneratorOptions {
  readonly disableNameSuffixHash?: boolean;
  readonly labels?: Readonly<Record<string, string>>;
}

const known = [
  "apiVersion",
  "kind",
  "resources",
  "components",
  "configMapGenerator",
  "generatorOptions",
  "labels",
  "patches",
];

/** The same for as much of Kustomize as is used here; anything else in a kustomization is refused. */
export function render(folder: string): Manifest[] {
  return renderOnto([], folder);
}

function renderOnto(before: readonly Manifest[], folder: string): Manifest[] {
  const [own] = documentsIn(readFileSync(join(folder, "kustomization.yaml"), "utf8")) as [Kustomization];
  const unknown = Object.keys(own).filter((key) => !known.includes(key));
  if (unknown.length > 0) throw new Error(`${folder}: ${unknown} is not known here`);
  let all = [...before, ...(own.resources ?? []).flatMap((name) => resourcesOf(join(folder, name)))];
  for (const generated of own.configMapGenerator ?? []) all.push(configMap(generated, { own, folder }));
  for (const name of own.components ?? []) all = renderOnto(all, join(folder, name));
  for (const { target, path } of own.patches ?? []) {
    const [operations] = documentsIn(readFileSync(join(folder, path), "utf8")) as [Operation[]];
    const found = all.filter(({ kind, metadata }) => kind === target.kind && metadata.name === target.name);
    if (found.length !== 1) throw new Error(`${path}: ${found.length} manifests are meant`);
    for (const operation of operations) apply(found[0], operation);
  }
  for (const { pairs } of own.labels ?? []) {
    for (const { metadata } of all) metadata.labels = { ...metadata.labels, ...pairs };
  }
  return all;
}

const resourcesOf = (path: string): Manifest[] =>
  statSync(path).isDirectory() ? render(path) : documentsIn(readFileSync(path, "utf8"));

function configMap(
  { name, files, options = {} }: Generated,
  { own, folder }: { readonly own: Kustomization; readonly folder: string },
): Manifest {
  const { disableNameSuffixHash, labels } = { ...own.generatorOptions, ...options };
  if (disableNameSuffixHash !== true) throw new Error(`${name}: its name would change with what is in it`);
  const data = Object.fromEntries(
    files.map((entry) => {
      const [key = "", path = key] = entry.split("=");
      return [basename(key), readFileSync(join(folder, path), "utf8")];
    }),
  );
  const metadata = labels === undefined ? { name } : { name, labels: { ...labels } };
  return { apiVersion: "v1", kind: "ConfigMap", metadata, data };
}

interface Operation {
  readonly op: string;
  readonly path: string;
  readonly value?: unknown;
}

/** RFC 6902. */
function apply(target: Manifest, { op, path, value }: Operation): void {
  const names = path.split("/").slice(1);
  const last = names.pop() ?? "";
  const parent = names.reduce((at, name) => at[name], target);
  if (op !== "add" && parent[last] === undefined) throw new Error(`${path} is not there`);
  if (op === "test") {
    if (parent[last] !== value) throw new Error(`${path} is not ${String(value)}`);
  } else if (op === "remove") {
    if (Array.isArray(parent)) parent.splice(Number(last), 1);
    else delete parent[last];
  } else if (op === "replace" || op === "add") {
    if (op === "add" && Array.isArray(parent)) parent.splice(last === "-" ? parent.length : Number(last), 0, value);
    else parent[last] = value;
  } else {
    throw new Error(`${op} is not known here`);
  }
}
