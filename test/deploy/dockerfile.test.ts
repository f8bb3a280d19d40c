import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Copy, DockerfileParser, From, type Instruction, JSONInstruction } from "dockerfile-ast";
import { expect, it } from "vitest";
import { root } from "../../bin/steps.ts";
import { deployedMemory, deployedOptions } from "../bench/sidecar-process.ts";

const file = DockerfileParser.parse(readFileSync(join(root, "deploy/image/Dockerfile"), "utf8"));
const instructions = file.getInstructions();
const lastFrom = instructions.findLastIndex((one) => one instanceof From);
const stage = instructions.slice(lastFrom);
const ofKind = (keyword: string, among: readonly Instruction[] = instructions) =>
  among.filter((one) => one.getKeyword() === keyword);
const argumentsOf = (one: Instruction | undefined) => one?.getArguments().map((argument) => argument.getValue());

it("ends with only the assembled files: no shell, no package manager, nothing to run", () => {
  expect(argumentsOf(stage[0])).toEqual(["scratch"]);
  expect(ofKind("RUN", stage)).toEqual([]);
  for (const copy of stage.filter((one) => one instanceof Copy)) {
    expect(copy.getFlags().map((flag) => `${flag.getName()}=${flag.getValue()}`)).toContain("from=build");
  }
});

it("runs as a numeric user, which Kubernetes can tell from root", () => {
  expect(argumentsOf(ofKind("USER", stage).at(-1))).toEqual(["65532:65532"]);
});

it("starts Node itself: a shell in between would take the signals", () => {
  for (const [keyword, words] of [
    ["ENTRYPOINT", ["/usr/bin/node", "/opt/latchkey/latchkey.js"]],
    ["CMD", ["serve"]],
  ] as const) {
    const [found] = ofKind(keyword, stage);
    if (!(found instanceof JSONInstruction)) throw new Error(`${keyword} is not a list`);
    expect(found.getJSONStrings().map((one) => JSON.parse(one.getValue()))).toEqual(words);
  }
  expect(argumentsOf(ofKind("STOPSIGNAL", stage)[0])).toEqual(["SIGTERM"]);
  const variables = ofKind("ENV", stage)[0]?.getArgumentsContent();
  expect(variables).toContain(`NODE_OPTIONS="${deployedOptions}"`);
  for (const [name, value] of Object.entries(deployedMemory)) expect(variables).toContain(` ${name}=${value} `);
});

it("installs what the lock file names, from an image with a version, and fetches nothing else", () => {
  expect(ofKind("ADD")).toEqual([]);
  const said = ofKind("RUN").map((one) => one.getRawArgumentsContent());
  expect(said.filter((text) => /npm (?:i|install)\b|curl|wget|--unsafe/.test(text ?? ""))).toEqual([]);
  expect(said.some((text) => text?.startsWith("npm ci"))).toBe(true);
  expect(argumentsOf(ofKind("ARG")[0])?.[0]).toMatch(/^BUILD_IMAGE=.+:24-/);
});

it("holds no secret and none that could be given to its build", () => {
  const named = [...ofKind("ENV"), ...ofKind("ARG")].flatMap((one) => argumentsOf(one) ?? []);
  expect(named.filter((text) => /SECRET|TOKEN|PASSWORD|SEAL|_KEYS?\b/i.test(text))).toEqual([]);
});
