import type { EgressProxy } from "./egress-proxy.ts";

/** Explains why a connection to the proxy was not established. */
export function unreachableText(error: Error): string {
  const code = codeOf(error);
  const isTls = /^(?:ERR_(?:TLS|SSL)|CERT_|SELF_|DEPTH_|UNABLE_|HOSTNAME_|EPROTO)/.test(code);
  return isTls ? `no trusted connection to the egress proxy: ${code}` : `the egress proxy cannot be reached: ${code}`;
}

export function codeOf(error: Error): string {
  const [first] = error instanceof AggregateError ? (error.errors as Error[]) : [error];
  return (first as NodeJS.ErrnoException | undefined)?.code ?? "no connection";
}

/** Connects to the proxy and asks nothing of it. Returns what is wrong; undefined: nothing. */
export function probeProxy(proxy: EgressProxy, withinMs: number): Promise<string | undefined> {
  const { socket, readyEvent } = proxy.connect();
  return new Promise((resolve) => {
    const settle = (trouble: string | undefined) => {
      clearTimeout(late);
      socket.destroy();
      resolve(trouble);
    };
    const late = setTimeout(() => settle("the egress proxy did not accept a connection in time"), withinMs);
    socket.on("error", (error) => settle(unreachableText(error)));
    socket.once("close", () => settle("the egress proxy ended the connection"));
    socket.once(readyEvent, () => settle(undefined));
  });
}
