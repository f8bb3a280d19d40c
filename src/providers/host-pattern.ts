/** Reports whether a host matches one of these patterns, in which `*` stands for one label. */
export const isHostAllowed = (host: string, patterns: readonly string[]): boolean =>
  patterns.some((pattern) => isMatch(host.toLowerCase().split("."), pattern.split(".")));

const isMatch = (labels: readonly string[], pattern: readonly string[]): boolean =>
  labels.length === pattern.length &&
  labels.every((label, i) => label !== "" && (pattern[i] === "*" || pattern[i] === label));

const label = "[a-z0-9](?:[a-z0-9-]*[a-z0-9])?";
const form = new RegExp(`^(?:(?:\\*|${label})\\.)*${label}\\.[a-z][a-z0-9-]*[a-z0-9]$`);

/** Says what is wrong with a pattern. Under a domain of one label, anyone can have a host. */
export const hostPatternMistake = (pattern: string): string | undefined =>
  form.test(pattern) ? undefined : "must be a host in lower case, in which `*` stands for a label before the last two";
