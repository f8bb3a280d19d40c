import { networkInterfaces } from "node:os";

/** Returns whether a host and port are a listener of this process, as far as that is known without a name server. */
export function createOwnAddresses(listening: () => readonly string[]): (host: string, port: number) => boolean {
  return (host, port) =>
    listening().some((address) => {
      if (!URL.canParse(address)) return false;
      const url = new URL(address);
      const own = url.hostname.replace(/^\[(.*)\]$/, "$1");
      const ownPort = url.port === "" ? (url.protocol === "https:" ? 443 : 80) : Number(url.port);
      if (ownPort !== port) return false;
      return host === own || loopback.has(host) || (wildcards.has(own) && isInterface(host));
    });
}

const loopback = new Set(["localhost", "127.0.0.1", "::1", "0.0.0.0", "::"]);
const wildcards = new Set(["0.0.0.0", "::"]);

const isInterface = (host: string): boolean =>
  Object.values(networkInterfaces()).some((all) => all?.some(({ address }) => address === host));
