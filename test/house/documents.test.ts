import { existsSync, readdirSync, readFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import { documentNames } from "../../bin/document-names.ts";
import { anchorsOf, linksOf, markdownFiles, proseOf, readText, root } from "../support/documents/markdown.ts";

const read = (name: string) => readFileSync(fileURLToPath(new URL(`../../${name}`, import.meta.url)), "utf8");

it("gives the reason for every runtime dependency", () => {
  const reasons = read("src/dependencies.md");
  const { dependencies } = JSON.parse(read("package.json")) as { dependencies: Record<string, string> };
  const listed = [...reasons.matchAll(/^\| `(.+?)` \|/gm)].map(([, name = ""]) => name);
  expect(listed.sort()).toEqual(Object.keys(dependencies).sort());
});

it("pins every dependency exactly", () => {
  const { dependencies, devDependencies, optionalDependencies } = JSON.parse(read("package.json")) as Record<
    string,
    Record<string, string>
  >;
  const loose = Object.entries({ ...dependencies, ...devDependencies, ...optionalDependencies }).filter(
    ([, version]) => !/^\d+\.\d+\.\d+(-[\w.]+)?$/.test(version),
  );
  expect(loose).toEqual([]);
});

it("names every room of the house", () => {
  const map = read("src/README.md");
  const rooms = readdirSync(join(root, "src"), { withFileTypes: true }).filter((one) => one.isDirectory());
  expect(rooms.filter(({ name }) => !map.includes(`\n  ${name}/ `)).map(({ name }) => name)).toEqual([]);
});

it("names every sub-room of the broker, in the order of its floors", () => {
  const [, table = ""] = /\n## Rooms, bottom up\n([\s\S]*?)\n## /.exec(read("src/broker/README.md")) ?? [];
  const listed = [...table.matchAll(/^\| `([a-z-]+)\/` \|/gm)].map(([, name = ""]) => name);
  const [, floors = ""] = /\n {2}broker: \[([\s\S]*?)\]/.exec(read("test/house/floors.test.ts")) ?? [];
  expect(listed).toEqual([...floors.matchAll(/"(.+?)"/g)].map(([, name]) => name));
});

it("keeps pages for contributors and operators short", () => {
  const most = (path: string) => (path === "src/README.md" ? 10_240 : path.startsWith("src/") ? 6_144 : 12_288);
  const shown = files.filter((path) => /^(?:src|deploy|test)\//.test(path));
  const long = shown.filter((path) => Buffer.byteLength(readText(path)) > most(path));
  expect(long).toEqual([]);
});

/** Written by `npm run generate`: as long as what they list. */
const generated = new Set(documentNames.map((name) => `docs/${name}`));
const files = markdownFiles();
const pages = files.filter(
  (path) => /^docs\/|^README\.md$/.test(path) && !generated.has(path) && !path.startsWith("docs/rpc/"),
);

it("keeps every page short enough to read in one go", () => {
  const size = (path: string) => Buffer.byteLength(readText(path));
  const most = (path: string) => (path === "README.md" ? 10_240 : 12_288);
  expect(pages.filter((path) => size(path) > most(path)).map((path) => `${path}: ${size(path)} bytes`)).toEqual([]);
});

it("breaks the lines of pages after at most 300 characters, but for tables", () => {
  const long = pages.flatMap((path) =>
    readText(path)
      .split("\n")
      .flatMap((line, i) => (line.length > 300 && !/^\s*\|/.test(line) ? [`${path}:${i + 1}`] : [])),
  );
  expect(long).toEqual([]);
});

it("links only to files and anchors that exist", () => {
  const anchors = new Map(files.map((path) => [path, anchorsOf(readText(path))]));
  const broken = files.flatMap((path) =>
    linksOf(readText(path))
      .filter((target) => !/^[a-z]+:/.test(target))
      .filter((target) => {
        const [file = "", anchor = ""] = target.split("#");
        const found = file === "" ? path : join(dirname(path), file);
        if (!existsSync(join(root, found))) return true;
        return anchor !== "" && anchors.get(found)?.has(anchor) === false;
      })
      .map((target) => `${path}: ${target}`),
  );
  expect(broken).toEqual([]);
});

it("names every page in the index of its folder", () => {
  const missing = files
    .filter((path) => path.startsWith("docs/") && !path.endsWith("/README.md"))
    .filter((path) => {
      const index = join(dirname(path), "README.md");
      return !existsSync(join(root, index)) || !linksOf(readText(index)).includes(basename(path));
    });
  expect(missing).toEqual([]);
  const folders = [...new Set(files.filter((path) => path.startsWith("docs/")).map(dirname))].filter(
    (path) => path !== "docs",
  );
  const links = linksOf(readText("docs/README.md"));
  expect(folders.filter((folder) => !links.includes(`${folder.slice("docs/".length)}/README.md`))).toEqual([]);
});

/** Words of the first version's own dialect, which readers did not understand, and words that have a plain name. */
const dialect =
  /\b(whoever|whomever|whom|nobody|somebody|anew|amiss|thereof|lest|in vain|(?:is|are) told of|comes? to nothing|has it that|goes on|lets? go of|be it|lies|stands|sealed|doors?)\b/gi;

it("uses plain words", () => {
  const odd = pages.flatMap((path) =>
    proseOf(readText(path))
      .split("\n")
      .flatMap((line) =>
        [...line.replaceAll(/`[^`]*`|\]\([^)]*\)/g, "").matchAll(dialect)].map(
          ([word]) => `${path}: ${word}: ${line.slice(0, 120)}`,
        ),
      ),
  );
  expect(odd).toEqual([]);
});
