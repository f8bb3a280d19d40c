/** A tool as text, for the search. */
export interface SearchedTool {
  readonly name: string;
  readonly description: string;
}

const wordsOf = (text: string): string[] =>
  text
    // `listIssues` holds two words.
    .replaceAll(/([a-z0-9])([A-Z])/g, "$1 $2")
    .toLowerCase()
    .split(/[^\p{L}\p{N}]+/u)
    .filter((word) => word !== "");

/** A word in the name says more than one in the description, and a whole word more than its beginning. */
const weights = { name: 4, description: 1 } as const;
const shortestStem = 3;
const maxWords = 20;

/** Returns the tools that fit a query, best first; for an empty query all, by name. */
export function searchTools<T extends SearchedTool>(tools: readonly T[], query: string): T[] {
  const wanted = [...new Set(wordsOf(query))].slice(0, maxWords);
  const scored = tools.map((tool) => ({ tool, score: scoreOf(tool, wanted) }));
  return scored
    .filter(({ score }) => wanted.length === 0 || score > 0)
    .sort((a, b) => b.score - a.score || (a.tool.name < b.tool.name ? -1 : 1))
    .map(({ tool }) => tool);
}

function scoreOf({ name, description }: SearchedTool, wanted: readonly string[]): number {
  const [inName, inDescription] = [wordsOf(name), wordsOf(description)];
  let score = 0;
  for (const word of wanted) {
    score += weights.name * likeness(inName, word) + weights.description * likeness(inDescription, word);
  }
  return score;
}

/** Returns 2 for the word itself, 1 for one that begins alike: `issue` and `issues`. */
function likeness(words: readonly string[], wanted: string): number {
  if (words.includes(wanted)) return 2;
  const isAlike = (word: string) =>
    Math.min(word.length, wanted.length) >= shortestStem && (word.startsWith(wanted) || wanted.startsWith(word));
  return words.some(isAlike) ? 1 : 0;
}
