import type { JsonObject } from "@bufbuild/protobuf";
import type { ConnectionField } from "../../gen/latchkey/v1/provider_pb.ts";
import { placeholder, urlTemplate } from "../../providers/url-template.ts";

/** A connection's configuration leads to no address that its provider allows. */
export class UnboundHost extends Error {
  override readonly name = "Unbound";
  /** The value that is missing or not allowed, such as `connectionConfig.subdomain`. */
  readonly placeholder: string;

  constructor(message: string, placeholder = "") {
    super(message);
    this.placeholder = placeholder;
  }
}

export interface TemplateValues {
  /** The provider's fields: the allowed form of each value. */
  readonly fields: readonly ConnectionField[];
  /** The connection's own values. */
  readonly config: JsonObject;
  /** The integration's values, for fields that the connection does not set. */
  readonly defaults: Readonly<Record<string, string>>;
  /** Fields of the credentials, for the URL of a token exchange. */
  readonly credentials?: JsonObject;
}

/**
 * Fills the connection's values into a URL of a provider's description. No value can reach beyond its part of the host
 * or its path segment. Throws `UnboundHost`, which quotes no value.
 */
export function filledUrl(url: string, filling: TemplateValues): string {
  const template = urlTemplate(url);
  if (template === undefined) throw new UnboundHost("its provider's URL is not valid");
  const { scheme, rest } = template;
  const fill = (text: string, read: ReadField) =>
    text.replaceAll(placeholder, (_, from: string, name: string) => valueFor({ from, name, read, filling }));
  const host = fill(template.host, hostIn);
  const path = fill(template.path, segmentIn);
  const filled = `${scheme}${host}${path}${rest}`;
  // `URL` must not rewrite the host: a number that parses as an IP address (`127.1`) would become a different host.
  const name = host.replace(/:\d+$/, "").toLowerCase();
  if (!URL.canParse(filled) || new URL(filled).hostname !== name)
    throw new UnboundHost("its connection_config gives no valid URL");
  return filled;
}

type ReadField = (value: string, field: Pick<ConnectionField, "pattern" | "suffixes">) => string | undefined;

interface TemplateField {
  readonly from: string;
  readonly name: string;
  readonly read: ReadField;
  readonly filling: TemplateValues;
}

/** Values that no field describes may only be path segments, never hosts. */
const undescribed = { pattern: "", suffixes: [] };

function valueFor({ from, name, read, filling }: TemplateField): string {
  const { fields, config, defaults, credentials = {} } = filling;
  if (from === "credentials") {
    const value = credentials[name];
    const filled = typeof value === "string" && read === segmentIn ? segmentIn(value, undescribed) : undefined;
    if (filled === undefined) throw new UnboundHost(`its credentials' ${name} is not valid as a path segment`);
    return filled;
  }
  const field = fields.find((one) => one.name === name);
  const value = present(config[name]) ?? present(defaults[name]) ?? field?.defaultValue;
  const filled = field === undefined || typeof value !== "string" ? undefined : read(value, field);
  if (filled === undefined) {
    const problem = `its connection_config.${name} is not allowed in the URL by its provider`;
    throw new UnboundHost(problem, `connectionConfig.${name}`);
  }
  return filled;
}

/** Absent, null and empty values are the same: the next source is used. */
const present = <T>(value: T): T | undefined => (value === null || value === "" ? undefined : value);

const label = "[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?";
const hostPart = new RegExp(`^${label}(\\.${label})*(:[1-9][0-9]{0,4})?$`);

/** Returns the value as part of a host name. If the field lists suffixes, `https://host/` is accepted as well. */
export function hostIn(value: string, { pattern, suffixes }: Pick<ConnectionField, "pattern" | "suffixes">) {
  if (!fits(value, pattern)) return undefined;
  if (suffixes.length === 0) return hostPart.test(value) && value === value.toLowerCase() ? value : undefined;
  const bare = value.replace(/^https:\/\//i, "").replace(/\/$/, "");
  if (!hostPart.test(bare) || !URL.canParse(`https://${bare}`)) return undefined;
  const { hostname, host } = new URL(`https://${bare}`);
  // Rejects hosts that only look like the provider's (`provider.test.evil.test`, `evilprovider.test`).
  return suffixes.some((suffix) => hostname === suffix || hostname.endsWith(`.${suffix}`)) ? host : undefined;
}

/**
 * Allows only the unreserved characters of RFC 3986, 2.3, which mean the same with and without percent-encoding;
 * rejects dot segments.
 */
function segmentIn(value: string, { pattern, suffixes }: Pick<ConnectionField, "pattern" | "suffixes">) {
  const isSegment = /^[A-Za-z0-9._~-]{1,255}$/.test(value) && value !== "." && value !== "..";
  return isSegment && suffixes.length === 0 && fits(value, pattern) ? value : undefined;
}

const fits = (value: string, pattern: string) => pattern === "" || new RegExp(`^(?:${pattern})$`, "u").test(value);
