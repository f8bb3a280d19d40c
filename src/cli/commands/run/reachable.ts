/** A listener on all addresses is reached where its address was asked for. */
export function reachable(proxyAddress: string, from: string): string {
  if (!URL.canParse(proxyAddress)) return proxyAddress;
  const url = new URL(proxyAddress);
  if (!["0.0.0.0", "[::]"].includes(url.hostname)) return url.origin;
  url.hostname = URL.canParse(from) && from.startsWith("http") ? new URL(from).hostname : "127.0.0.1";
  return url.origin;
}
