/** Rewrites the command parser's messages in Latchkey's own words. */
export function plainParseError(text: string): string {
  const message = text.replace(/^error: /, "").trimEnd();
  for (const [pattern, plain] of rules) {
    const found = pattern.exec(message);
    if (found !== null) return plain(...(found.slice(1) as [string, string, string]));
  }
  return message;
}

type ParseErrorRule = readonly [pattern: RegExp, plain: (...parts: [string, string, string]) => string];

const rules: readonly ParseErrorRule[] = [
  [/^required option '(.+)' not specified$/, (flags) => `give ${flags}`],
  [/^missing required argument '(.+)'$/, (name) => `give <${name}>`],
  [/^option '(.+)' argument missing$/, (flags) => `${flags} needs a value`],
  [
    /^unknown option '(.+)'(?:\n\(Did you mean (.+)\?\))?$/,
    (name, similar) => `there is no option ${name}${did(similar)}`,
  ],
  [
    /^unknown command '(.+)'(?:\n\(Did you mean (.+)\?\))?$/,
    (name, similar) => `there is no command ${name}${did(similar)}`,
  ],
  [
    /^too many arguments(?: for '(.+)')?\. Expected (\d+) arguments? but got (\d+)(?:.*)$/,
    (name, most, given) =>
      `${name === undefined ? "too many arguments" : `${name} takes ${most === "0" ? "no" : most} argument${most === "1" ? "" : "s"}`}, and ${given} were given`,
  ],
  [
    /^option '(.+)' cannot be used with option '(.+)'$/,
    (one, other) => `use ${flagOf(one)} or ${flagOf(other)}, not both`,
  ],
  [
    /^command-argument value '([\s\S]*)' is invalid for argument '(.+?)'\. ([\s\S]+)$/,
    (value, _name, why) => `"${value}" is not valid. ${allowed(why)}`,
  ],
  [
    /^option '(.+?)' argument '([\s\S]*?)' is invalid\. ([\s\S]+)$/,
    (flags, value, why) => `${flagOf(flags)}: "${value}" is not valid. ${allowed(why)}`,
  ],
];

const did = (similar: string | undefined) => (similar === undefined ? "" : `. Did you mean ${similar}?`);

/** Returns the long form: `--state` for `-s, --state <state>`. */
const flagOf = (flags: string): string => /--[\w-]+/.exec(flags)?.[0] ?? flags;

const allowed = (why: string): string => why.replace(/^Allowed choices are (.+)\.$/, "It must be one of $1.");
