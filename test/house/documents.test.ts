import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import { faults } from "../../src/base/fault.ts";
import { metricTable } from "../../src/base/metrics/metrics.ts";
import { variables, variablesHelp } from "../../src/config/variables.ts";

const read = (name: string) => readFileSync(fileURLToPath(new URL(`../../${name}`, import.meta.url)), "utf8");
const readme = read("README.md");

/** The cells of a Markdown table's rows whose first cell is code. */
const rows = (section: string): string[][] => {
  const [, text = ""] = new RegExp(`\\n## ${section}\\n([\\s\\S]*?)(?=\\n## |$)`).exec(readme) ?? [];
  return [...text.matchAll(/^\| (`.*) \|$/gm)].map(([, row = ""]) => row.split(" | ").map((cell) => cell.trim()));
};

it("lists every environment variable, with the default it has", () => {
  const listed = rows("Configuration").map(([name, fallback]) => [
    name?.replaceAll("`", ""),
    fallback?.replaceAll("`", ""),
  ]);
  expect(listed).toEqual(variables.map((row) => [row.name, row.default.replaceAll("`", "")]));
  for (const { name } of variables) expect(variablesHelp()).toContain(name);
});

it("lists every metric, with its labels and its help text", () => {
  const listed = rows("Metrics").map(([name = "", labels = "", meaning]) => [
    name.replaceAll("`", ""),
    labels.replaceAll("`", ""),
    meaning,
  ]);
  expect(listed).toEqual(
    Object.values(metricTable).map(({ name, labels, help }) => [
      name,
      labels.length === 0 ? "–" : labels.join(", "),
      help,
    ]),
  );
});

it("lists every fault code, with its status on both faces", () => {
  const listed = rows("Errors").map(([code, status, rpc]) => [code?.replaceAll("`", ""), status, rpc]);
  expect(listed).toEqual(Object.entries(faults).map(([code, { status, rpc }]) => [code, String(status), rpc]));
});

it("gives the reason for every runtime dependency", () => {
  const architecture = read("ARCHITECTURE.md");
  const { dependencies } = JSON.parse(read("package.json")) as { dependencies: Record<string, string> };
  const missing = Object.keys(dependencies).filter((name) => !architecture.includes(`| \`${name}\` |`));
  expect(missing).toEqual([]);
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
  const architecture = read("ARCHITECTURE.md");
  for (const room of [
    "cli",
    "control-plane",
    "data-plane",
    "broker",
    "core",
    "providers",
    "store",
    "config",
    "sandbox",
    "base",
    "gen",
  ]) {
    expect(architecture).toContain(`  ${room}/`);
  }
});
