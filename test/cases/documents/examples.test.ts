import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { codeBlocksOf, readText, root } from "../../support/documents/markdown.ts";
import { type Output, runAsReader } from "../../support/documents/reader.ts";
import { lacks } from "../../support/sidecar/needs.ts";
import { launch, type Running } from "../../support/sidecar/process.ts";

/** Runs the examples of the documents against one `latchkey dev`, in the order in which a newcomer reads them. */

const pages = [
  "README.md",
  "docs/getting-started.md",
  "docs/calling-apis.md",
  "docs/sandbox.md",
  "docs/connect.md",
  "docs/sdks.md",
];
/** How to run a snippet; the name of its file comes last. */
const runtimes = {
  js: { command: [process.execPath], extension: "mjs" },
  python: { command: ["python3"], extension: "py" },
  go: { command: ["go", "run"], extension: "go" },
  ruby: { command: ["ruby"], extension: "rb" },
} as const;

let dev: Running;
let folder: string;
let key: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "latchkey-examples-"));
  const unset = ["STORE", "SEAL_KEYS", "SECRET_KEY", "ADMIN_KEY"].map((name) => [`LATCHKEY_${name}`, undefined]);
  dev = launch(["dev", "--sandbox", ":0"], { folder, cwd: folder, env: Object.fromEntries(unset), outlivesTest: true });
  await dev.says("Stop with Ctrl-C.");
  key = (await readFile(join(folder, ".latchkey/secret-key"), "utf8")).trim();
  // Node finds a snippet's packages here.
  await symlink(join(root, "node_modules"), join(folder, "node_modules"));
});

afterAll(async () => {
  dev.child.kill("SIGINT");
  expect(await dev.exited).toBe(0);
  await rm(folder, { recursive: true, force: true });
});

/** The text with the addresses of this `dev` in place of the usual ones. */
function here(text: string): string {
  const sandbox = /(http:\S+)\/_sandbox/.exec(dev.stdout())?.[1] ?? "";
  return text
    .replaceAll("http://127.0.0.1:3003", dev.address("data"))
    .replaceAll("http://127.0.0.1:3004", dev.address("control"))
    .replaceAll("http://127.0.0.1:3010", sandbox)
    .replaceAll("npm run -s latchkey --", `'${process.execPath}' '${join(root, "src/main.ts")}'`);
}

const environment = (more: Readonly<Record<string, string>> = {}) => ({
  PATH: process.env["PATH"],
  HOME: process.env["HOME"],
  NODE_COMPILE_CACHE: join(root, "node_modules/.cache/latchkey-compiled"),
  LATCHKEY_CONTROL: dev.address("control"),
  ...more,
});

/** The output of a page's shell blocks, run in order in one shell. */
async function runShell(page: string, more?: Readonly<Record<string, string>>): Promise<Output> {
  const blocks = codeBlocksOf(readText(page)).filter(({ language }) => language === "sh");
  const lines = blocks.map(({ text }) => text).filter((text) => text !== "npm start\n");
  const output = await runAsReader("sh", ["-ec", here(lines.join("\n"))], { cwd: folder, env: environment(more) });
  expect({ page, ...output, isEmpty: output.stdout === "" }).toMatchObject({ code: 0, isEmpty: false });
  expect(output.stdout).not.toContain('{"error"');
  return output;
}

it("begins with npm start", () => {
  for (const page of ["README.md", "docs/getting-started.md"]) {
    expect(codeBlocksOf(readText(page)).find(({ language }) => language === "sh")?.text).toBe("npm start\n");
  }
});

it("runs the commands of the README", async () => {
  const { stdout, stderr } = await runShell("README.md");
  expect(stderr).toBe("");
  expect(stdout).toContain('"name":"notes-1.txt"');
});

it("leads from the sandbox to an account that is connected with an OAuth app registered by hand", async () => {
  const { stdout, stderr } = await runShell("docs/getting-started.md");
  expect(stderr).toMatch(/^Open http:\S+\n$/);
  expect(stdout).toContain('"name":"notes-1.txt"');
  expect(stdout).toMatch(/callback_url: http:\S+\/oauth\/callback\n/);
  expect(stdout).toMatch(/connected my-files\/[0-9a-f-]{36}\n/);
  expect(stdout).toContain('"connect_link":"');
});

it.each(["docs/calling-apis.md", "docs/sandbox.md", "docs/connect.md", "docs/sdks.md"])(
  "runs the commands of %s",
  async (page) => {
    expect((await runShell(page, { KEY: key })).stderr).toBe("");
  },
);

/** Runs all snippets of a language, with the account that the commands have connected. */
async function runSnippets(language: keyof typeof runtimes): Promise<readonly string[]> {
  const { command, extension } = runtimes[language];
  const [program, ...args] = command;
  const snippets = pages.flatMap((page) =>
    codeBlocksOf(readText(page)).flatMap((block) => (block.language === language ? [{ page, text: block.text }] : [])),
  );
  const outputs = snippets.map(async ({ page, text }, i) => {
    const cwd = join(folder, `snippet-${language}-${i}`);
    await mkdir(cwd);
    await writeFile(join(cwd, `snippet.${extension}`), here(text));
    const output = await runAsReader(program, [...args, `snippet.${extension}`], {
      cwd,
      env: environment({ KEY: key }),
    });
    expect({ page, ...output }).toMatchObject({ code: 0, stderr: "" });
    return output.stdout;
  });
  return Promise.all(outputs);
}

for (const language of ["js", "python", "go", "ruby"] as const) {
  it.skipIf(language !== "js" && lacks(language))(`runs the snippets in ${language}`, async () => {
    const outputs = await runSnippets(language);
    expect(outputs.length).toBeGreaterThan(0);
    for (const output of outputs) expect(output).toContain("notes-1.txt");
  });
}
