import type { JsonObject } from "@bufbuild/protobuf";
import type { ConnectionField } from "../../gen/latchkey/v1/provider_pb.ts";
import { placeholder, urlTemplate } from "../../providers/url-template.ts";

/** A connection's configuration leads nowhere that its provider allows. */
export class UnboundHost extends Error {
  override readonly name = "Unbound";
}

export interface TemplateValues {
  /** Of the provider: what each value may look like. */
  readonly fields: readonly ConnectionField[];
  /** The connection's own. */
  readonly config: JsonObject;
  /** Of its integration, for what the connection does not say. */
  readonly defaults: Readonly<Record<string, string>>;
  /** Fields of the credentials, for the URL of a token exchange. */
  readonly credentials?: JsonObject;
}

/**
 * A URL of a provider's description with the connection's values in it. What stands for a part of the host or for a
 * segment of the path is no more than that, whatever it is. Throws `UnboundHost`, which quotes no value.
 */
export function filledUrl(url: string, filling: TemplateValues): string {
  const template = urlTemplate(url);
  if (template === undefined) throw new UnboundHost("its provider's URL is none");
  const { scheme, rest } = template;
  const fill = (text: string, read: ReadField) =>
    text.replaceAll(placeholder, (_, from: string, name: string) => valueFor({ from, name, read, filling }));
  const host = fill(template.host, hostIn);
  const path = fill(template.path, segmentIn);
  const filled = `${scheme}${host}${path}${rest}`;
  // `URL` must read it as it is written: a number that is an address (`127.1`) is a host that nobody wrote.
  const name = host.replace(/:\d+$/, "").toLowerCase();
  if (!URL.canParse(filled) || new URL(filled).hostname !== name)
    throw new UnboundHost("its configuration makes no URL");
  return filled;
}

type ReadField = (value: string, field: Pick<ConnectionField, "pattern" | "suffixes">) => string | undefined;

interface TemplateField {
  readonly from: string;
  readonly name: string;
  readonly read: ReadField;
  readonly filling: TemplateValues;
}

/** What no field describes is a segment of a path, and no host. */
const undescribed = { pattern: "", suffixes: [] };

function valueFor({ from, name, read, filling }: TemplateField): string {
  const { fields, config, defaults, credentials = {} } = filling;
  if (from === "credentials") {
    const value = credentials[name];
    const filled = typeof value === "string" && read === segmentIn ? segmentIn(value, undescribed) : undefined;
    if (filled === undefined) throw new UnboundHost(`its credentials' ${name} is no segment of a path`);
    return filled;
  }
  const field = fields.find((one) => one.name === name);
  const value = present(config[name]) ?? present(defaults[name]) ?? field?.defaultValue;
  const filled = field === undefined || typeof value !== "string" ? undefined : read(value, field);
  if (filled === undefined) {
    throw new UnboundHost(`its connection_config.${name} is no part of a URL that its provider allows`);
  }
  return filled;
}

/** Absent, null and empty are the same: the next one speaks. */
const present = <T>(value: T): T | undefined => (value === null || value === "" ? undefined : value);

const label = "[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?";
const hostPart = new RegExp(`^${label}(\\.${label})*(:[1-9][0-9]{0,4})?$`);

/** The labels of a host that a value is. Where the field knows suffixes, the value may be `https://host/` as well. */
export function hostIn(value: string, { pattern, suffixes }: Pick<ConnectionField, "pattern" | "suffixes">) {
  if (!fits(value, pattern)) return undefined;
  if (suffixes.length === 0) return hostPart.test(value) && value === value.toLowerCase() ? value : undefined;
  const bare = value.replace(/^https:\/\//i, "").replace(/\/$/, "");
  if (!hostPart.test(bare) || !URL.canParse(`https://${bare}`)) return undefined;
  const { hostname, host } = new URL(`https://${bare}`);
  // A host that only looks like the provider's (`provider.test.evil.test`, `evilprovider.test`) is none.
  return suffixes.some((suffix) => hostname === suffix || hostname.endsWith(`.${suffix}`)) ? host : undefined;
}

/** RFC 3986, 2.3: what means the same whether it is percent-encoded or not; and no step up or aside. */
function segmentIn(value: string, { pattern, suffixes }: Pick<ConnectionField, "pattern" | "suffixes">) {
  const isSegment = /^[A-Za-z0-9._~-]{1,255}$/.test(value) && value !== "." && value !== "..";
  return isSegment && suffixes.length === 0 && fits(value, pattern) ? value : undefined;
}

const fits = (value: string, pattern: string) => pattern === "" || new RegExp(`^(?:${pattern})$`, "u").test(value);
