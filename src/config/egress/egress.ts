import { createSecureContext } from "node:tls";
import type { EgressProxySettings, NameResolution } from "../../relay/egress-proxy/egress-proxy.ts";
import { defaultNoProxy, noProxyMistake } from "../../relay/egress-proxy/no-proxy.ts";
import type { ConfigFile } from "../file.ts";
import type { FileReader, SecretSource } from "../secrets.ts";
import { describeUnreadable } from "../unreadable.ts";
import type { Refuse } from "../values.ts";
import type { VariableReader } from "../variable-reader.ts";
import type { VariableName } from "../variables.ts";

export type { EgressProxySettings } from "../../relay/egress-proxy/egress-proxy.ts";

interface EgressSource {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly variables: Pick<VariableReader, "text" | "secret" | "optionalChoice" | "isInFile">;
  readonly secrets: SecretSource;
  readonly files: FileReader;
  readonly file: ConfigFile;
  readonly refuse: Refuse;
  readonly warn: Refuse;
}

/** A setting with the name under which it was given, for messages. */
interface Setting<T> {
  readonly name: string;
  readonly value: T;
}

const resolutions = ["local", "pinned", "proxy"] as const satisfies readonly NameResolution[];
const dependent = [
  "LATCHKEY_EGRESS_AUTH",
  "LATCHKEY_EGRESS_NO_PROXY",
  "LATCHKEY_EGRESS_RESOLVE",
  "LATCHKEY_EGRESS_CA",
  "LATCHKEY_EGRESS_INTERCEPT_CA",
  "LATCHKEY_EGRESS_CLIENT_CERT",
  "LATCHKEY_EGRESS_CLIENT_KEY",
] as const satisfies readonly VariableName[];

/** Reads the egress proxy; undefined: everything is dialed directly. Variables come before the file. */
export function egressOf(source: EgressSource): EgressProxySettings | undefined {
  const { variables, file, refuse } = source;
  const given = either(variables.secret("LATCHKEY_EGRESS_PROXY")?.trim(), "LATCHKEY_EGRESS_PROXY", {
    name: "egress.proxy",
    value: file.egress?.proxy,
  });
  if (given?.value === "off") return undefined;
  if (given === undefined) {
    reportUnused(source);
    return undefined;
  }
  const place = proxyUrlOf(given, refuse);
  const clientCertificate = clientCertificateOf(source);
  const ca = pemOf(source, "LATCHKEY_EGRESS_CA", { name: "egress.ca", value: file.egress?.ca });
  if (place?.scheme === "http" && (ca ?? clientCertificate) !== undefined) {
    refuse(`${given.name}: a certificate of the proxy or for it needs https://`);
  }
  return {
    scheme: place?.scheme ?? "http",
    host: place?.host ?? "",
    port: place?.port ?? 0,
    auth: authOf(source, place?.auth),
    ca,
    clientCertificate,
    interceptCa: pemOf(source, "LATCHKEY_EGRESS_INTERCEPT_CA", {
      name: "egress.intercept_ca",
      value: file.egress?.intercept_ca,
    }),
    noProxy: noProxyOf(source),
    resolution: variables.optionalChoice("LATCHKEY_EGRESS_RESOLVE", resolutions) ?? file.egress?.resolve ?? "local",
  };
}

function either<T>(ofVariable: T | undefined, name: string, ofFile: Setting<T | undefined>): Setting<T> | undefined {
  if (ofVariable !== undefined) return { name, value: ofVariable };
  return ofFile.value === undefined ? undefined : { name: ofFile.name, value: ofFile.value };
}

/** Settings of a proxy that there is not, and the variables of other programs. */
function reportUnused({ env, variables, file, refuse, warn }: EgressSource): void {
  // A file that cannot be read was reported already.
  if (variables.isInFile("LATCHKEY_EGRESS_PROXY")) return;
  const unused = dependent.filter((name) => env[name] || env[`${name}_FILE`]);
  if (unused.length > 0) refuse(`${unused[0]} is set, but LATCHKEY_EGRESS_PROXY is not; set it, or remove both`);
  if (file.egress !== undefined) refuse("egress.proxy: is missing; set it, or LATCHKEY_EGRESS_PROXY");
  const others = ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"].filter((name) => env[name]);
  if (others.length > 0) {
    warn(
      `${others[0]} is set, but Latchkey does not use it: set LATCHKEY_EGRESS_PROXY to send everything through a proxy, or LATCHKEY_EGRESS_PROXY=off to dial directly`,
    );
  }
}

interface ProxyPlace extends Pick<EgressProxySettings, "scheme" | "host" | "port"> {
  readonly auth: string | undefined;
}

/** Returns the beginning of a message: a colon after a place in the file. */
const begin = (name: string): string => (name.startsWith("egress.") ? `${name}:` : name);

/** Messages do not quote the value, which may contain a password. */
function proxyUrlOf({ name, value }: Setting<string>, refuse: Refuse): ProxyPlace | undefined {
  const isForm = /^https?:\/\/[^/?#]+:\d{1,5}\/?$/.test(value) && URL.canParse(value);
  const url = isForm ? new URL(value) : undefined;
  if (url === undefined) {
    refuse(`${begin(name)} must be http://host:port or https://host:port, and may have a user and a password, or off`);
    return undefined;
  }
  const scheme = url.protocol === "https:" ? "https" : "http";
  // WHATWG URLs leave out the default port.
  const port = Number(url.port || (scheme === "https" ? 443 : 80));
  const host = url.hostname.replace(/^\[(.*)\]$/, "$1").replace(/\.$/, "");
  if (url.username === "" && url.password === "") return { scheme, host, port, auth: undefined };
  if (name.startsWith("egress.")) {
    refuse("egress.proxy: must not contain a password; use egress.auth: {env: NAME} or {file: path}");
    return undefined;
  }
  try {
    const auth = `${decodeURIComponent(url.username)}:${decodeURIComponent(url.password)}`;
    requireAuth({ name, value: auth }, refuse);
    return { scheme, host, port, auth };
  } catch {
    refuse(`${name}: user and password must be percent-encoded`);
    return undefined;
  }
}

function authOf({ variables, secrets, file, refuse }: EgressSource, inUrl: string | undefined): string | undefined {
  const ofVariable = variables.secret("LATCHKEY_EGRESS_AUTH");
  if (ofVariable !== undefined && inUrl !== undefined) {
    refuse("LATCHKEY_EGRESS_AUTH is set, and the URL of the proxy has a user as well; remove one of them");
  }
  const reference = file.egress?.auth;
  if (ofVariable !== undefined) return requireAuth({ name: "LATCHKEY_EGRESS_AUTH", value: ofVariable }, refuse);
  if (inUrl !== undefined || reference === undefined) return inUrl;
  const outcome = "env" in reference ? secrets.fromVariable(reference.env) : secrets.fromFile(reference.file);
  if ("value" in outcome) return requireAuth({ name: "egress.auth", value: outcome.value }, refuse);
  refuse(`egress.auth: ${outcome.mistake}`);
  return undefined;
}

function requireAuth({ name, value }: Setting<string>, refuse: Refuse): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: RFC 7617 forbids them.
  if (!/^[^:\u0000-\u001f\u007f]+:[^\u0000-\u001f\u007f]*$/.test(value)) refuse(`${begin(name)} must be user:password`);
  return value;
}

function noProxyOf({ variables, file, refuse }: EgressSource): readonly string[] {
  const text = variables.text("LATCHKEY_EGRESS_NO_PROXY");
  const ofVariable = text === "none" ? [] : text?.split(",").flatMap((part) => part.trim() || []);
  const entries = ofVariable ?? file.egress?.no_proxy;
  if (entries === undefined) return defaultNoProxy;
  return entries.filter((entry, i) => {
    const mistake = noProxyMistake(entry);
    const place = ofVariable === undefined ? `egress.no_proxy.${i}:` : `LATCHKEY_EGRESS_NO_PROXY: entry ${i + 1}`;
    if (mistake !== undefined) refuse(`${place} ${mistake}`);
    return mistake === undefined;
  });
}

function clientCertificateOf(source: EgressSource): EgressProxySettings["clientCertificate"] {
  const { variables, file, refuse } = source;
  const named = {
    certificate: either(variables.text("LATCHKEY_EGRESS_CLIENT_CERT"), "LATCHKEY_EGRESS_CLIENT_CERT", {
      name: "egress.client_cert",
      value: file.egress?.client_cert,
    }),
    privateKey: either(variables.text("LATCHKEY_EGRESS_CLIENT_KEY"), "LATCHKEY_EGRESS_CLIENT_KEY", {
      name: "egress.client_key",
      value: file.egress?.client_key,
    }),
  };
  if (named.certificate === undefined && named.privateKey === undefined) return undefined;
  if (named.certificate === undefined || named.privateKey === undefined) {
    refuse("the client certificate for the egress proxy and its key must be set together");
    return undefined;
  }
  const certificate = textOf(source, named.certificate);
  const privateKey = textOf(source, named.privateKey);
  if (certificate === undefined || privateKey === undefined) return undefined;
  try {
    createSecureContext({ cert: certificate, key: privateKey });
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    refuse(`${named.certificate.name}: certificate and key do not belong together, or are damaged (${code})`);
  }
  return { certificate, privateKey };
}

function pemOf(source: EgressSource, name: VariableName, ofFile: Setting<string | undefined>): string | undefined {
  const given = either(source.variables.text(name), name, ofFile);
  if (given === undefined) return undefined;
  const text = textOf(source, given);
  if (text === undefined || text.includes("-----BEGIN CERTIFICATE-----")) return text;
  source.refuse(`${given.name}: ${given.value} holds no certificate in PEM`);
  return undefined;
}

function textOf({ files, refuse }: EgressSource, { name, value }: Setting<string>): string | undefined {
  try {
    return files.read(value).text;
  } catch (error) {
    refuse(`${name}: ${describeUnreadable(value, error)}`);
    return undefined;
  }
}
