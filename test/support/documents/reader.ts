import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createTestBrowser } from "../sidecar/connecting.ts";

/** What a program printed, and the code with which it ended. */
export interface Output {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

interface ReaderOptions {
  readonly cwd: string;
  readonly env: Readonly<Record<string, string | undefined>>;
}

/** Runs a program; opens each connect link that it prints, as a reader does. */
export async function runAsReader(command: string, args: readonly string[], options: ReaderOptions): Promise<Output> {
  const child = spawn(command, args, { ...options, stdio: ["ignore", "pipe", "pipe"] });
  const output = { code: -1, stdout: "", stderr: "" };
  const visits: Promise<void>[] = [];
  const collect = (name: "stdout" | "stderr") => (chunk: Buffer) => {
    const before = linksIn(output[name]).length;
    output[name] += chunk;
    for (const link of linksIn(output[name]).slice(before)) {
      const visit = allow(link);
      // The program waits for the account: without a reader it would wait for long.
      visit.catch(() => child.kill());
      visits.push(visit);
    }
  };
  child.stdout.on("data", collect("stdout"));
  child.stderr.on("data", collect("stderr"));
  output.code = await exitOf(child);
  await Promise.all(visits);
  return output;
}

async function exitOf(child: ChildProcess): Promise<number> {
  const [code] = await once(child, "close");
  return code ?? -1;
}

/** Links for a person: what a program reads is in JSON. */
const linksIn = (text: string): readonly string[] => text.match(/(?<=^Open )http\S+(?=\n)/gm) ?? [];

/** Clicks "Connect", then "Allow", until a page says that the account is connected. */
async function allow(link: string): Promise<void> {
  const browser = createTestBrowser();
  let page = await browser.go(link);
  for (let clicks = 0; !page.text.includes("is connected"); clicks += 1) {
    const form = formOf(page.text);
    if (form === undefined || clicks > 3) throw new Error(`the reader is stuck on ${page.url}:\n${page.text}`);
    const action = new URL(form.action, page.url);
    if (form.isPost) {
      const answer = await browser.post(action.href, form.fields);
      const location = answer.headers.get("location");
      if (location === null) throw new Error(`${action} answered ${answer.status}`);
      page = await browser.go(new URL(location, action).href);
    } else page = await browser.go(`${action}?${form.fields}`);
  }
}

/** The form with the button to go on, as it is when the page has opened. */
function formOf(page: string) {
  for (const [, head = "", body = ""] of page.matchAll(/<form([^>]*)>([\s\S]*?)<\/form>/g)) {
    const [, button] = /<button([^>]*)>(?:Connect|Allow)</.exec(body) ?? [];
    if (button === undefined) continue;
    const fields = new URLSearchParams();
    for (const [tag] of body.matchAll(/<input[^>]*>/g)) {
      const isOff = /type="(radio|checkbox)"/.test(tag) && !tag.includes(" checked");
      const name = attribute(tag, "name");
      if (name !== undefined && !isOff) fields.append(name, attribute(tag, "value") ?? "");
    }
    const name = attribute(button, "name");
    if (name !== undefined) fields.append(name, attribute(button, "value") ?? "");
    return { action: attribute(head, "action") ?? "", isPost: attribute(head, "method") === "post", fields };
  }
  return undefined;
}

const attribute = (tag: string, name: string): string | undefined =>
  new RegExp(` ${name}="([^"]*)"`).exec(tag)?.[1]?.replaceAll("&amp;", "&");
