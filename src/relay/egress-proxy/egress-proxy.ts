import net from "node:net";
import tls, { type SecureContext } from "node:tls";
import type { ClientCertificate, Origin } from "../origin.ts";
import { createNoProxy } from "./no-proxy.ts";

/** An upstream HTTP proxy, through which everything leaves by CONNECT (RFC 9110, 9.3.6). */
export interface EgressProxySettings {
  readonly scheme: "http" | "https";
  readonly host: string;
  readonly port: number;
  /** `user:password`, for Basic authentication. */
  readonly auth: string | undefined;
  /** PEM: trusted for the proxy itself, beside the usual authorities. */
  readonly ca: string | undefined;
  readonly clientCertificate: ClientCertificate | undefined;
  /** PEM: trusted for certificates of origins behind the proxy, which may open TLS to read it. */
  readonly interceptCa: string | undefined;
  /** Origins that are dialed directly. */
  readonly noProxy: readonly string[];
  readonly resolution: NameResolution;
}

/**
 * Resolver of an origin's name. `local`: Latchkey resolves and checks the name, and the proxy gets the name. `pinned`:
 * the same, but the proxy gets the checked address. `proxy`: the proxy alone.
 */
export type NameResolution = "local" | "pinned" | "proxy";

export interface ResolvedAddress {
  readonly address: string;
  readonly family: number;
}

export type HopOutcome =
  | "opened"
  /** The proxy cannot be reached, or its certificate is not trusted. */
  | "unreachable"
  /** The proxy does not accept Latchkey's user and password. */
  | "unauthorized"
  /** The proxy's rules forbid the host. */
  | "refused"
  /** The proxy could not reach the host. */
  | "failed"
  /** The proxy did not answer in time, or not in HTTP. */
  | "no_answer";

export interface EgressProxy {
  readonly resolution: NameResolution;
  /** PEM, see `EgressProxySettings`. */
  readonly interceptCa: string | undefined;
  /** `http://host:port`, without a password. */
  readonly address: string;
  /** Value of `Proxy-Authorization`. */
  readonly authorization: string | undefined;
  /** False: the origin is dialed directly. */
  covers(origin: Origin): boolean;
  /** Begins a connection to the proxy. */
  connect(): ProxyHop;
  note(outcome: HopOutcome, reason: string): void;
}

/** A connection to the proxy. */
export interface ProxyHop {
  readonly socket: net.Socket;
  /** The event after which the proxy may be written to. */
  readonly readyEvent: "connect" | "secureConnect";
}

/** A way through the proxy. */
export interface EgressRoute {
  readonly proxy: EgressProxy;
  /** Resolves and checks the origin's name; undefined: the proxy gets the name, without a check. */
  readonly addresses: (() => Promise<readonly ResolvedAddress[]>) | undefined;
}

interface EgressProxyOptions {
  readonly settings: EgressProxySettings;
  /** Resolves the proxy's own name. */
  readonly resolve: (host: string) => Promise<readonly ResolvedAddress[]>;
  readonly onOutcome: (outcome: HopOutcome, reason: string) => void;
}

export function createEgressProxy({ settings, resolve, onOutcome }: EgressProxyOptions): EgressProxy {
  const { scheme, host, port, auth, interceptCa, resolution } = settings;
  const isDirect = createNoProxy(settings.noProxy);
  const secureContext = scheme === "https" ? contextFor(settings) : undefined;
  const lookup: net.LookupFunction = (name, options, callback) => {
    resolve(name).then(
      (found) => {
        const [first] = found;
        if (first === undefined) callback(Object.assign(new Error("no address"), { code: "ENODATA" }), []);
        else if (options.all) callback(null, [...found]);
        else callback(null, first.address, first.family);
      },
      (error: NodeJS.ErrnoException) => callback(error, []),
    );
  };
  /** TLS session of an earlier connection to the proxy. */
  let session: Buffer | undefined;

  return {
    resolution,
    interceptCa,
    address: `${scheme}://${host.includes(":") ? `[${host}]` : host}:${port}`,
    authorization: auth === undefined ? undefined : `Basic ${Buffer.from(auth).toString("base64")}`,
    covers: (origin) => !isDirect(origin),
    connect() {
      const target = { host, port, lookup };
      if (secureContext === undefined) return { socket: net.connect(target).setNoDelay(true), readyEvent: "connect" };
      const socket = tls.connect({
        ...target,
        secureContext,
        servername: net.isIP(host) === 0 ? host : "",
        rejectUnauthorized: true,
        ALPNProtocols: ["http/1.1"],
        ...(session === undefined ? {} : { session }),
      });
      socket.on("session", (ticket) => {
        session = ticket;
      });
      return { socket: socket.setNoDelay(true), readyEvent: "secureConnect" };
    },
    note: onOutcome,
  };
}

const contextFor = ({ ca, clientCertificate: own }: EgressProxySettings): SecureContext =>
  tls.createSecureContext({
    minVersion: "TLSv1.2",
    ...(ca === undefined ? {} : { ca: [...tls.getCACertificates("default"), ca] }),
    ...(own === undefined ? {} : { cert: own.certificate, key: own.privateKey }),
  });
