import { execFile } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll, expect, it } from "vitest";
import { signatureFields } from "../../src/core/notifications/webhook-signature.ts";
import { EnvironmentService } from "../../src/gen/latchkey/v1/environment_pb.ts";
import { lacks } from "../support/sidecar/needs.ts";
import { startReceiving } from "../support/sidecar/receiving.ts";

// The functions of docs/webhooks.md that verify a delivery, run as they are printed there.

const page = readFileSync(fileURLToPath(new URL("../../docs/webhooks.md", import.meta.url)), "utf8");
const folder = mkdtempSync(join(tmpdir(), "latchkey-snippets-"));
afterAll(() => rmSync(folder, { recursive: true }));

/** Returns the page's only code block in a language. */
function snippet(language: string): string {
  const blocks = [...page.matchAll(new RegExp(`^\`\`\`${language}\\n([\\s\\S]*?)^\`\`\`$`, "gm"))];
  expect(blocks).toHaveLength(1);
  return blocks[0]?.[1] ?? "";
}

interface Case {
  readonly secret: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

const names = ["webhook-id", "webhook-timestamp", "webhook-signature"] as const;

/** A real delivery, signed with two secrets, and what an attacker makes of it. */
async function makeCases(): Promise<Readonly<Record<string, Case>>> {
  const receiving = await startReceiving();
  const environments = receiving.sidecar.client(EnvironmentService);
  // The first secret is made when it is first asked for.
  await environments.listSigningSecrets({ environment: "dev" });
  await environments.rotateSigningSecret({ environment: "dev" });
  await receiving.integrate("github", { credentials: { type: "OAUTH2", client_id: "id", client_secret: "secret" } });
  // The body has more bytes than characters.
  const payload = '{"sender": {"login": "Ada Lövelace ☃"}, "n": 1.0}';
  await receiving.notify({ integration: "github", headers: { "content-type": "application/json" }, body: payload });
  const [delivered] = await receiving.application.got(1);
  if (delivered === undefined) throw new Error("nothing was delivered");
  const { secrets } = await environments.listSigningSecrets({ environment: "dev", reveal: true });
  const [newest = "", former = ""] = secrets.map(({ secret }) => secret);
  const headers = Object.fromEntries(names.map((name) => [name, String(delivered.headers[name])]));
  const { body } = delivered;
  expect(body).toContain(payload);
  const good = { secret: newest, headers, body };
  const at = (offsetMs: number) => ({
    ...good,
    headers: signatureFields({
      id: String(headers["webhook-id"]),
      timestampMs: Date.now() + offsetMs,
      body: Buffer.from(body),
      secrets: [newest],
    }),
  });
  return {
    good,
    "good, by the former secret": { ...good, secret: former },
    "tampered body": { ...good, body: body.replace("Ada", "Eve") },
    "other id": { ...good, headers: { ...headers, "webhook-id": "msg_other" } },
    "later timestamp": {
      ...good,
      headers: { ...headers, "webhook-timestamp": String(Number(headers["webhook-timestamp"]) + 1) },
    },
    "no timestamp": { ...good, headers: { ...headers, "webhook-timestamp": "now" } },
    "no signature": { ...good, headers: { ...headers, "webhook-signature": "v1," } },
    "other secret": { ...good, secret: `whsec_${Buffer.alloc(32, 1).toString("base64")}` },
    old: at(-310_000),
    "from the future": at(310_000),
  };
}

let made: ReturnType<typeof makeCases> | undefined;
const cases = () => {
  made ??= makeCases();
  return made;
};

interface Language {
  /** Name of the code block. */
  readonly block: string;
  readonly needs?: Parameters<typeof lacks>[0];
  readonly file: string;
  /** Follows the snippet: prints the names of the cases that it accepts, one a line. */
  readonly calls: string;
  readonly command: readonly [string, ...string[]];
}

const goCalls = `package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
)

func main() {
	var cases map[string]struct {
		Secret, Body string
		Headers      map[string]string
	}
	text, _ := os.ReadFile("cases.json")
	if err := json.Unmarshal(text, &cases); err != nil {
		panic(err)
	}
	for name, one := range cases {
		headers := http.Header{}
		for field, value := range one.Headers {
			headers.Set(field, value)
		}
		if verify(one.Secret, headers, []byte(one.Body)) == nil {
			fmt.Println(name)
		}
	}
}
`;

const languages: readonly Language[] = [
  {
    block: "js",
    file: "verify.mjs",
    calls: `
import { readFileSync } from "node:fs";
for (const [name, { secret, headers, body }] of Object.entries(JSON.parse(readFileSync("cases.json", "utf8")))) {
  try {
    if (verify(secret, headers, Buffer.from(body)).type === "forward") console.log(name);
  } catch {}
}
`,
    command: [process.execPath, "verify.mjs"],
  },
  {
    block: "python",
    needs: "python",
    file: "verify.py",
    calls: `
for name, one in json.load(open("cases.json", encoding="utf-8")).items():
    try:
        if verify(one["secret"], one["headers"], one["body"].encode())["type"] == "forward": print(name)
    except ValueError: pass
`,
    command: ["python3", "verify.py"],
  },
  { block: "go", needs: "go", file: "verify.go", calls: "", command: ["go", "run", "verify.go", "main.go"] },
  {
    block: "ruby",
    needs: "ruby",
    file: "verify.rb",
    calls: `
JSON.parse(File.read("cases.json", encoding: "utf-8")).each do |name, one|
  puts name if verify(one["secret"], one["headers"], one["body"])["type"] == "forward"
rescue RuntimeError, ArgumentError
end
`,
    command: ["ruby", "verify.rb"],
  },
  {
    block: "php",
    needs: "php",
    file: "verify.php",
    calls: `
foreach (json_decode(file_get_contents("cases.json"), true) as $name => $one) {
    try {
        if (verify($one["secret"], $one["headers"], $one["body"])["type"] === "forward") echo "$name\\n";
    } catch (Exception $e) {}
}
`,
    command: ["php", "verify.php"],
  },
];

it.for(languages.map((language) => [language.block, language] as const))(
  "W21 the function in %s verifies a real delivery",
  async ([block, { needs, file, calls, command }], { skip }) => {
    skip(needs !== undefined && lacks(needs), `this machine lacks ${needs}`);
    const all = await cases();
    writeFileSync(join(folder, "cases.json"), JSON.stringify(all));
    writeFileSync(join(folder, file), snippet(block) + calls);
    if (block === "go") writeFileSync(join(folder, "main.go"), goCalls);
    const [program, ...args] = command;
    const { stdout, stderr } = await promisify(execFile)(program, args, { cwd: folder });
    const accepted = stdout.split("\n").filter((name) => name !== "");
    expect({ accepted: accepted.toSorted(), stderr }).toEqual({
      accepted: ["good", "good, by the former secret"],
      stderr: "",
    });
  },
);
