import { isDeepStrictEqual } from "node:util";
import type { JsonObject } from "@bufbuild/protobuf";
import type { Provider } from "../../gen/latchkey/v1/provider_pb.ts";

const mention = /\$\{connectionConfig\.([^}]+)\}/g;

/**
 * Names in `connection_config` that a provider's description uses: in an address, in a request, in a token. Their
 * values decide where stored credentials are sent and what they are used for. Searches all text of the description, so
 * that a template added later is found as well.
 */
export function boundConfigNames(provider: Provider): ReadonlySet<string> {
  const names = new Set<string>();
  addNames(provider, names);
  return names;
}

function addNames(value: unknown, names: Set<string>): void {
  if (typeof value === "string") {
    for (const [, name = ""] of value.matchAll(mention)) {
      names.add(name);
      // Some templates read a dot as part of the name, others as a step into a value.
      names.add(name.split(".", 1)[0] ?? "");
    }
  } else if (typeof value === "object" && value !== null) {
    for (const inner of Object.values(value)) addNames(inner, names);
  }
}

/**
 * Returns the names among `bound` whose values differ. An absent value differs from an empty one: a default replaces
 * it.
 */
export const changedConfigNames = (
  bound: ReadonlySet<string>,
  before: JsonObject | Readonly<Record<string, string>>,
  after: JsonObject | Readonly<Record<string, string>>,
): readonly string[] => [...bound].filter((name) => !isDeepStrictEqual(ownValue(before, name), ownValue(after, name)));

const ownValue = (config: JsonObject | Readonly<Record<string, string>>, name: string): unknown =>
  Object.hasOwn(config, name) ? config[name] : undefined;
