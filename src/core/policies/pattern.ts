import { RE2JS } from "@bufbuild/re2";
import { createLateCache } from "../../base/caches/late-cache.ts";
import { policyLimits } from "./limits.ts";

/** A pattern in RE2's syntax, which is matched in time linear to the text. */
export interface Pattern {
  /** Instructions of the compiled pattern; matching takes at most so many steps a character. */
  readonly size: number;
  test(text: string): boolean;
}

const compiled = createLateCache<Pattern>({ max: 1_000 });

/** Compiles a pattern. Throws an Error that says what is wrong with it. */
export function compilePattern(text: string): Pattern {
  const known = compiled.get(text);
  if (known !== undefined) return known;
  if (text.length > policyLimits.patternText) {
    throw new Error(`the pattern must have at most ${policyLimits.patternText} characters`);
  }
  const re2 = RE2JS.compile(text);
  const size = re2.re2().prog.numInst();
  if (size > policyLimits.patternSize) throw new Error("the pattern repeats too much; use smaller counts");
  const pattern = { size, test: (matched: string) => re2.test(matched) };
  compiled.set(text, pattern);
  return pattern;
}

/** Returns whether a text matches. Throws for a pattern or a text that is too long. */
export function matchPattern(pattern: string, text: string): boolean {
  const { test } = compilePattern(pattern);
  if (text.length > policyLimits.matchedText) throw new Error(textTooLong);
  return test(text);
}

export const textTooLong = `\`matches\` takes a text of at most ${policyLimits.matchedText} characters`;
