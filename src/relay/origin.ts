/** Where requests go, and whom is trusted there: connections are shared by those who have all of it in common. */
export interface Origin {
  readonly scheme: "https" | "http";
  /** A name in ASCII and lower case, or an address without brackets. */
  readonly host: string;
  readonly port: number;
  /** Shown to the provider when the TLS connection is made. */
  readonly clientCertificate?: ClientCertificate | undefined;
  /** For answers that must never be taken for those to anything else. */
  readonly isApart?: boolean;
}

/** An origin that requests may be sent to. */
export interface AdmittedOrigin extends Origin {
  /** Connections are shared by those who have it in common. */
  readonly key: string;
  /** As a Host header has it. */
  readonly authority: string;
}

export interface ClientCertificate {
  /** PEM, with its chain. */
  readonly certificate: string;
  /** PEM. */
  readonly privateKey: string;
}

const defaultPorts = { https: 443, http: 80 } as const;

/** Throws nothing: undefined for what is no origin of ours. Only what `URL` reads is believed, and only if it is all. */
export function parseOrigin(url: string): Origin | undefined {
  const parsed = URL.parse(url);
  return parsed === null ? undefined : originOf(parsed);
}

export function originOf({ protocol, hostname, port }: URL): Origin | undefined {
  const scheme = protocol === "https:" ? "https" : protocol === "http:" ? "http" : undefined;
  if (scheme === undefined || hostname === "") return undefined;
  const host = hostname.replace(/^\[(.*)\]$/, "$1").replace(/\.$/, "");
  return { scheme, host, port: port === "" ? defaultPorts[scheme] : Number(port) };
}

/** As a Host header has it. */
export function authorityOf({ scheme, host, port }: Origin): string {
  const name = host.includes(":") ? `[${host}]` : host;
  return port === defaultPorts[scheme] ? name : `${name}:${port}`;
}

export const hrefOf = (origin: Origin): string => `${origin.scheme}://${authorityOf(origin)}`;
