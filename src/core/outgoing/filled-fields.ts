import type { NameValue } from "../../auth/attachment.ts";
import type { ProxyRules } from "../../gen/latchkey/v1/provider_pb.ts";
import type { PlaceholderValues } from "./placeholder-values.ts";

/** A header or parameter that a provider's description fills with a value that is missing, or that fits into none. */
export class UnfilledField extends Error {
  override readonly name = "UnfilledField";
  /** Such as `connectionConfig.tenantId`. */
  readonly placeholder: string;

  constructor(field: string, placeholder: string, problem: string) {
    super(`the provider requires ${field} with ${placeholder}, which ${problem}`);
    this.placeholder = placeholder;
  }
}

/** Headers and query parameters with values of a connection or its integration. They replace those of callers. */
export interface FilledFields {
  readonly headers: readonly NameValue[];
  readonly query: readonly NameValue[];
  /** Values that are no secrets: they may be logged, and providers may quote them. */
  readonly known: readonly string[];
  /** Secrets among the values, without the text around them. */
  readonly secrets: readonly string[];
  /** What could not be filled, in order. */
  readonly unfilled: readonly UnfilledField[];
}

const placeholders = /\$\{([^}]*)\}/g;

/** Visible ASCII, with blanks only within: nothing that ends a header, and nothing that servers read differently. */
const sendable = /^[\x21-\x7e](?:[\x20-\x7e]{0,4094}[\x21-\x7e])?$/;

/** Fills the headers and parameters that contain `${…}`; undefined if the description has none. */
export function filledFields(proxy: ProxyRules | undefined, values: PlaceholderValues): FilledFields | undefined {
  const headers = templatesIn(proxy?.headers);
  const query = templatesIn(proxy?.query);
  if (headers.length + query.length === 0) return undefined;
  const known: string[] = [];
  const secrets: string[] = [];
  const unfilled: UnfilledField[] = [];

  function fill(kind: string, [name, template]: NameValue): NameValue[] {
    const names = [...template.matchAll(placeholders)].map(([, one = ""]) => one);
    const missing = names.find((one) => values.read(one) === undefined);
    const unsendable = names.find((one) => !sendable.test(values.read(one) ?? "-"));
    const lacking = missing ?? unsendable;
    if (lacking !== undefined) {
      const problem =
        missing === undefined ? "is too long or has characters that a header cannot have" : "is missing or not valid";
      unfilled.push(new UnfilledField(`the ${kind} ${name}`, lacking, problem));
      return [];
    }
    const text = template.replaceAll(placeholders, (_, one: string) => values.read(one) ?? "");
    const hidden = names.filter((one) => values.isSecret(one));
    if (hidden.length === 0) known.push(text);
    secrets.push(...hidden.map((one) => values.read(one) ?? ""));
    return [[name, text]];
  }

  return {
    headers: headers.flatMap((one) => fill("header", one)),
    query: query.flatMap((one) => fill("query parameter", one)),
    known,
    secrets,
    unfilled,
  };
}

const templatesIn = (fields: Readonly<Record<string, string>> | undefined): readonly NameValue[] =>
  Object.entries(fields ?? {}).filter(([, value]) => value.includes("${"));

const plain = new WeakMap<ProxyRules, ProxyRules>();

/** Returns the rules without the headers and parameters that `filledFields` fills, for requests that may lack some. */
export function plainRules(proxy: ProxyRules | undefined): ProxyRules | undefined {
  if (proxy === undefined || templatesIn(proxy.headers).length + templatesIn(proxy.query).length === 0) return proxy;
  const known = plain.get(proxy);
  if (known !== undefined) return known;
  const without = (fields: Readonly<Record<string, string>>) =>
    Object.fromEntries(Object.entries(fields).filter(([, value]) => !value.includes("${")));
  const made = { ...proxy, headers: without(proxy.headers), query: without(proxy.query) };
  plain.set(proxy, made);
  return made;
}
