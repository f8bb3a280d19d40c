import { suggestion } from "../base/similar.ts";
import { defaultEnvironment } from "../core/declared.ts";
import type { ConfigFile } from "./file.ts";
import type { Locate } from "./read-file.ts";
import type { Refuse } from "./values.ts";

/** An alias whose integration or environment the file does not declare. The store may have it. */
export interface UndeclaredAlias {
  readonly name: string;
  readonly environment: string;
  readonly integration: string;
  readonly connection: string;
  /** The message if the store does not have it either. */
  readonly mistake: string;
  /** True if the file declares others of its kind: then it is a mistake. Otherwise it may be created later. */
  readonly isCertain: boolean;
}

interface NameCheck {
  readonly file: ConfigFile;
  readonly locate: Locate;
  readonly refuse: Refuse;
}

/** Refuses duplicate names, and names of undeclared objects. */
export function checkNames({ file, locate, refuse }: NameCheck): void {
  const { environments = [], integrations = [], providers = [], aliases = [] } = file;
  const twice = (of: readonly { readonly what: string; readonly id: string; readonly path: Path }[]) => {
    const first = new Map<string, Path>();
    for (const { what, id, path } of of) {
      const before = first.get(id);
      if (before === undefined) first.set(id, path);
      else refuse(`${locate(path)}: ${what} is a duplicate (first at line ${locate.line(before)})`);
    }
  };
  twice(environments.map(({ name }, i) => named("environment", name, ["environments", i, "name"])));
  twice(
    environments.flatMap(({ keys = [] }, i) =>
      keys.map(({ id }, j) => named("key id", id, ["environments", i, "keys", j, "id"])),
    ),
  );
  twice(
    integrations.map(({ environment, key }, i) => ({
      what: `the integration "${key}" of the environment "${environment}"`,
      id: `${environment}\0${key}`,
      path: ["integrations", i, "key"],
    })),
  );
  twice(providers.map(({ name }, i) => named("provider", name, ["providers", i, "name"])));
  twice(aliases.map(({ name }, i) => named("alias", name, ["aliases", i, "name"])));
  for (const [i, { key, provider, mcp }] of integrations.entries()) {
    if ((provider === undefined) !== (mcp === undefined)) continue;
    refuse(`${locate(["integrations", i])}: the integration "${key}" must have either provider or mcp`);
  }
  const names = environmentNames(file);
  for (const [i, { key, environment }] of integrations.entries()) {
    if (names.includes(environment)) continue;
    const near = suggestion(environment, names);
    const at = locate(["integrations", i, "environment"]);
    refuse(`${at}: the integration "${key}": the environment "${environment}" is not declared${near}`);
  }
}

/** Returns the aliases whose targets the file does not declare. */
export function undeclaredAliases({ file, locate }: Omit<NameCheck, "refuse">): UndeclaredAlias[] {
  const { environments = [], integrations = [], aliases = [] } = file;
  const names = environmentNames(file);
  return aliases.flatMap(({ name, environment, integration, connection }, i): UndeclaredAlias[] => {
    const alias = { name, environment, integration, connection };
    const say = (field: string, wrong: string) => `${locate(["aliases", i, field])}: the alias "${name}": ${wrong}`;
    if (!names.includes(environment)) {
      const wrong = `there is no environment "${environment}"${suggestion(environment, names)}`;
      return [{ ...alias, mistake: say("environment", wrong), isCertain: environments.length > 0 }];
    }
    const keys = integrations.filter((one) => one.environment === environment).map(({ key }) => key);
    if (keys.includes(integration)) return [];
    const near = suggestion(integration, keys);
    const wrong = `there is no integration "${integration}" in "${environment}"${near}`;
    return [{ ...alias, mistake: say("integration", wrong), isCertain: keys.length > 0 }];
  });
}

/** A file without environments configures `dev`, which Latchkey then creates. */
const environmentNames = ({ environments = [] }: ConfigFile): string[] =>
  environments.length === 0 ? [defaultEnvironment] : environments.map(({ name }) => name);

type Path = readonly (string | number)[];

const named = (kind: string, id: string, path: Path) => ({ what: `the ${kind} "${id}"`, id, path });
