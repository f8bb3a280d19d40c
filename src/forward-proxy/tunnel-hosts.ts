/** Hosts that are passed on without looking inside: `host`, `*.host` for every name below it, each with `:port`. */
export function createTunnelHosts(patterns: readonly string[]): (host: string, port: number) => boolean {
  const rules = patterns.map((pattern) => {
    const [, host = "", port = "443"] = /^([^:]+)(?::(\d+))?$/.exec(pattern.toLowerCase()) ?? [];
    const suffix = host.startsWith("*.") ? host.slice(1) : undefined;
    return { host, suffix, port: Number(port) };
  });
  return (host, port) =>
    rules.some(
      (rule) => rule.port === port && (rule.suffix === undefined ? host === rule.host : host.endsWith(rule.suffix)),
    );
}
