import { readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { expect, it } from "vitest";
import { markdownFiles, proseOf, readText, root } from "../support/documents/markdown.ts";

const folders = ["src", "test", "bin", "proto", "deploy", "docs"];
const tree = folders.flatMap((folder) => [
  `/${folder}`,
  ...readdirSync(join(root, folder), { recursive: true, encoding: "utf8" })
    .filter((path) => !path.includes("node_modules/"))
    .map((path) => `/${folder}/${path}`),
]);
const known = new Set([...tree, ...tree.map((path) => path.replace(/\.(?:ts|yaml)$/, ""))]);
const isKnown = (path: string) => [...known].some((one) => one.endsWith(`/${path}`));
/** A folder, a path with a folder, or a file of TypeScript. */
const pathForm = /^(?:[a-z][\w-]*(?:\/[\w.-]+)+|[a-z][\w-]*\.ts|[a-z][\w-]+(?=\/$))/;
/** Made by a build. */
const built = ["dist/latchkey.js"];

it("names only files and folders that exist, in the pages for contributors", () => {
  const pages = markdownFiles().filter((path) => /^(?:src|test)\/.*README\.md$|^docs\/contributing\.md$/.test(path));
  const named = pages.flatMap((page) =>
    [...proseOf(readText(page)).matchAll(/`([^`\n]+?)\/?`/g)].flatMap(([code = "", text = ""]) =>
      pathForm.test(code.slice(1, -1)) && /^[\w./-]+$/.test(text) && !built.includes(text) ? [{ page, text }] : [],
    ),
  );
  expect(named.length).toBeGreaterThan(100);
  const missing = named.filter(({ page, text }) => !isKnown(text) && !isKnown(join(dirname(page), text)));
  expect(missing.map(({ page, text }) => `${page}: ${text}`)).toEqual([]);
});
