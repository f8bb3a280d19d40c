import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { faultDocsPath } from "../../base/fault-docs.ts";
import { html } from "../../base/html.ts";
import { version } from "../../base/version.ts";
import type { Route, RouteAnswer, RouteRequest } from "../server/routes.ts";
import { plainPage } from "./plain-page.ts";

const openApiPath = "/openapi.json";

/** What the listener says of itself: the meaning of its errors, and the description of its routes. */
export const docRoutes: readonly Route[] = [
  {
    method: "GET",
    path: faultDocsPath,
    scope: undefined,
    isPublic: true,
    browser: "page",
    answer: errors,
  },
  { method: "GET", path: openApiPath, scope: undefined, browser: "page", answer: openApi },
];

/** Beside the bundle, and in a checkout. */
const openApiFiles = ["./openapi.json", "../../../docs/openapi.json"];

/** Loaded once, so that responses which wait for slow clients share the bytes. */
let openApiBytes: Buffer | undefined;
let errorsAnswer: RouteAnswer | undefined;

async function errors(): Promise<RouteAnswer> {
  if (errorsAnswer === undefined) {
    const { status, body, headers = {} } = (await import("./errors-page.ts")).errorsPage();
    errorsAnswer = { status, body: Buffer.from(String(body)), headers };
  }
  return errorsAnswer;
}

async function openApi(): Promise<RouteAnswer> {
  openApiBytes ??= await readOpenApi();
  return { status: 200, body: openApiBytes, headers: { "content-type": "application/json; charset=utf-8" } };
}

async function readOpenApi(): Promise<Buffer> {
  const file = openApiFiles.map((path) => new URL(path, import.meta.url)).find((url) => existsSync(url));
  if (file === undefined) throw new Error("openapi.json is missing: run npm run generate");
  return readFile(file);
}

/** Answers the root of the data listener: a page for a person, JSON for a program. */
export function greet({ headers }: RouteRequest): RouteAnswer {
  if (!/text\/html/i.test(headers.accept ?? "")) {
    return {
      status: 200,
      body: { name: "latchkey", version, docs: faultDocsPath, health: "/health", openapi: openApiPath },
    };
  }
  return plainPage(
    "Latchkey",
    html`<p>This is Latchkey ${version}. It keeps your users' tokens and API keys, and adds them to the requests your service sends.</p>
<ul><li><a href="${openApiPath}">Description of all JSON routes (OpenAPI)</a></li>
<li><a href="${faultDocsPath}">Error codes</a></li><li><a href="/health">Health</a></li></ul>`,
  );
}
