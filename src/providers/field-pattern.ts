/**
 * Checks a field's `pattern`. Latchkey compiles it with the flag `u`, and a browser's `pattern` attribute with the flag
 * `v` (HTML, "the pattern attribute"), so it must be valid under both. Returns what is wrong; undefined if valid.
 */
export function patternMistake(pattern: string): string | undefined {
  const isValidInBoth = isValid(pattern, "u") && isValid(pattern, "v");
  // With the flag v, && and -- within a class are operators: valid, but with another meaning.
  if (pattern === "" || (isValidInBoth && !/&&|--/.test(pattern))) return undefined;
  const escaped = withClassesEscaped(pattern);
  if (escaped === pattern && isValidInBoth) return undefined;
  if (isValid(escaped, "u") && isValid(escaped, "v")) {
    return `must also be a regular expression with the flag v, which browsers use: write ${escaped}`;
  }
  return isValid(pattern, "u")
    ? "must also be a regular expression with the flag v, which browsers use: inside [ and ], put a backslash before ( ) [ ] { } / - | where they are literal, and no doubled punctuation such as &&"
    : "must be a regular expression";
}

function isValid(pattern: string, flag: "u" | "v"): boolean {
  try {
    new RegExp(`^(?:${pattern})$`, flag);
    return true;
  } catch (error) {
    if (error instanceof SyntaxError) return false;
    throw error;
  }
}

/** Adds a backslash before each character of a class that the flag v treats as syntax. */
function withClassesEscaped(pattern: string): string {
  // Tokens: an escape, either end of a class, or any other character.
  const tokens = pattern.match(/\\[pP]\{[^}]*\}|\\u\{[^}]*\}|\\.|\[\^?|./gsu) ?? [];
  let isClass = false;
  let isAtStart = false;
  /** The previous token can begin a range: it is a character that does not end one. */
  let canBeginRange = false;
  return tokens
    .map((token, i) => {
      if (!isClass) {
        isClass = token === "[" || token === "[^";
        isAtStart = isClass;
        canBeginRange = false;
        return token;
      }
      if (token === "]") {
        isClass = false;
        return token;
      }
      const isRange = token === "-" && !isAtStart && canBeginRange && tokens[i + 1] !== "]";
      const isRangeEnd = tokens[i - 1] === "-" && !canBeginRange && !isAtStart;
      isAtStart = false;
      canBeginRange = !isRange && !isRangeEnd && !/^\\[dDsSwWpP]/.test(token);
      if (isRange) return token;
      if (token === "&" && tokens[i - 1] === "&") return "";
      return /^(?:[-(){}/|]|\[\^?)$/.test(token) ? `\\${token}` : token;
    })
    .join("");
}
