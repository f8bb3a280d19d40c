/** The target of requests, and the trust settings for it. Requests share connections only if all of this is equal. */
export interface Origin {
  readonly scheme: "https" | "http";
  /** A name in ASCII and lower case, or an address without brackets. */
  readonly host: string;
  readonly port: number;
  /** Sent to the provider in the TLS handshake. */
  readonly clientCertificate?: ClientCertificate | undefined;
  /**
   * Set for responses that must never be mistaken for those to other requests: these requests share no connections with
   * others.
   */
  readonly isApart?: boolean;
}

/** An origin that requests may be sent to. */
export interface AdmittedOrigin extends Origin {
  /** Requests with the same key share connections. */
  readonly key: string;
  /** The value of a Host header. */
  readonly authority: string;
}

export interface ClientCertificate {
  /** PEM, with its chain. */
  readonly certificate: string;
  /** PEM. */
  readonly privateKey: string;
}

const defaultPorts = { https: 443, http: 80 } as const;

/** Never throws; returns undefined for an unsupported origin. Trusts only the parts that `URL` has parsed. */
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

/** Returns the value of a Host header. */
export function authorityOf({ scheme, host, port }: Origin): string {
  const name = host.includes(":") ? `[${host}]` : host;
  return port === defaultPorts[scheme] ? name : `${name}:${port}`;
}

export const hrefOf = (origin: Origin): string => `${origin.scheme}://${authorityOf(origin)}`;
