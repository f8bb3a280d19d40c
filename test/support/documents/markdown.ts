import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

export const root = fileURLToPath(new URL("../../..", import.meta.url));

export const readText = (path: string): string => readFileSync(join(root, path), "utf8");

/** A fenced block of code. */
export interface CodeBlock {
  /** The word behind the opening fence: `sh`, `js`. */
  readonly language: string;
  readonly text: string;
}

/** The fenced blocks of a page, in order, without the indentation of their fence. */
export function codeBlocksOf(page: string): readonly CodeBlock[] {
  return [...page.matchAll(/^( *)```(\w*)[^\n]*\n([\s\S]*?)^\1```$/gm)].map(
    ([, indent = "", language = "", text = ""]) => ({
      language,
      text: text.replaceAll(new RegExp(`^${indent}`, "gm"), ""),
    }),
  );
}

/** The page without its fenced blocks; each leaves an empty line. */
export const proseOf = (page: string): string => page.replaceAll(/^( *)```[\s\S]*?^\1```$/gm, "");

/** The anchors of a page as GitHub makes them: of headings, and written as `<a id>`. */
export function anchorsOf(page: string): ReadonlySet<string> {
  const anchors = new Set<string>();
  const prose = proseOf(page);
  for (const [, heading = ""] of prose.matchAll(/^#{1,6} +(.*?) *#*$/gm)) {
    const slug = slugOf(heading);
    let anchor = slug;
    for (let i = 1; anchors.has(anchor); i += 1) anchor = `${slug}-${i}`;
    anchors.add(anchor);
  }
  for (const [, id = ""] of prose.matchAll(/<a (?:id|name)="([^"]*)">/g)) anchors.add(id);
  return anchors;
}

const slugOf = (heading: string): string =>
  heading
    .replaceAll(/\[([^\]]*)\]\([^)]*\)/g, "$1")
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}\p{M} _-]/gu, "")
    .replaceAll(" ", "-");

/** The targets of a page's links and images, without those of its code. */
export const linksOf = (page: string): readonly string[] =>
  [
    ...proseOf(page)
      .replaceAll(/`[^`\n]*`/g, "")
      .matchAll(/\]\(<?([^)\s>]+)>?(?: "[^"]*")?\)/g),
  ].map(([, target = ""]) => target);

const skipped = new Set(["node_modules", ".git", "dist", ".latchkey"]);

/** The paths of all Markdown files of the repository, from its root. */
export function markdownFiles(folder = ""): readonly string[] {
  return readdirSync(join(root, folder), { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) return skipped.has(entry.name) ? [] : markdownFiles(path);
    return entry.name.endsWith(".md") ? [path] : [];
  });
}
