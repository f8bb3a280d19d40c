import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { secretKey } from "../support/sidecar/harness.ts";
import { lacks } from "../support/sidecar/needs.ts";
import { type Asked, expectAllClean, type Origin, startOrigin } from "./origin.ts";

/**
 * Providers' own clients, installed apart in `clients/`. Each is used by a program, as a customer would write it, which
 * knows the address of an alias and latchkey's key, and nothing of the provider's credentials.
 */

/** A request that the program sends, and the provider's answer. */
interface Exchange {
  /** Method, path and query. */
  readonly line: string;
  /** The fields of the form or JSON, or the text of another body. */
  readonly sent?: unknown;
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: unknown;
}

interface Printed {
  readonly text: string;
  readonly errors: string;
}

function runProgram(name: string, { alias }: Origin): Promise<Printed> {
  const path = fileURLToPath(new URL(`clients/${name}.mjs`, import.meta.url));
  const env = { PATH: process.env["PATH"], HOME: process.env["HOME"], ADDRESS: alias, KEY: secretKey };
  return new Promise((resolve) =>
    execFile(process.execPath, [path], { env, timeout: 50_000 }, (_, text, errors) => resolve({ text, errors })),
  );
}

const lineOf = ({ method, url }: Asked) => `${method} ${url}`;

function sentIn({ headers, body }: Asked): unknown {
  const type = headers["content-type"] ?? "";
  if (body === "") return undefined;
  if (type.includes("json")) return JSON.parse(body);
  return type.includes("urlencoded") ? Object.fromEntries(new URLSearchParams(body)) : body;
}

/** Plays the exchanges in their order, and expects of the program exactly these. Returns what it printed. */
async function played(
  name: string,
  exchanges: readonly Exchange[],
  placement?: { readonly header: string },
): Promise<unknown> {
  const answers = exchanges.values();
  const origin = await startOrigin(() => answers.next().value ?? { status: 400 }, "", placement);
  const { text, errors } = await runProgram(name, origin);
  expect(origin.asked.map(lineOf), errors.slice(-2_000)).toEqual(exchanges.map(({ line }) => line));
  for (const [i, { sent }] of exchanges.entries()) {
    const asked = origin.asked[i];
    expect(asked && sentIn(asked), `the body of request ${i}`).toEqual(sent);
  }
  expectAllClean(origin, placement?.header);
  expect(errors).toBe("");
  return JSON.parse(text);
}

describe.skipIf(lacks("clients"))("a provider's own client works through an alias", () => {
  it("twilio", async () => {
    const messages = "/2010-04-01/Accounts/AC00000000000000000000000000000001/Messages";
    const more = `${messages}.json?PageSize=1&Page=1&PageToken=PASM1`;
    const printed = await played("twilio", [
      {
        line: `POST ${messages}.json`,
        sent: { From: "+15005550006", To: "+15005550009", Body: "hello & ü" },
        status: 201,
        body: { sid: "SM1", status: "queued", body: "hello & ü" },
      },
      { line: `GET ${messages}.json?PageSize=1`, body: { messages: [{ sid: "SM1" }], next_page_uri: more } },
      { line: `GET ${more}`, body: { messages: [{ sid: "SM2" }], next_page_uri: null } },
      {
        line: `GET ${messages}/SM404.json`,
        status: 404,
        body: {
          code: 20404,
          message: "was not found",
          more_info: "https://www.twilio.com/docs/errors/20404",
          status: 404,
        },
      },
    ]);
    expect(printed).toEqual({ written: "SM1", read: ["SM1", "SM2"], refused: [true, 404, 20404] });
  });

  it("@hubspot/api-client", async () => {
    const contact = (id: string) => ({ id, properties: { email: "ada@example.com" }, archived: false });
    const printed = await played("hubspot", [
      {
        line: "POST /crm/v3/objects/contacts",
        sent: { properties: { email: "ada@example.com" }, associations: [] },
        status: 201,
        body: contact("1"),
      },
      {
        line: "GET /crm/v3/objects/contacts?limit=1&properties=email",
        body: {
          results: [contact("1")],
          paging: { next: { after: "7", link: "https://api.hubapi.com/crm/v3/objects/contacts?after=7" } },
        },
      },
      { line: "GET /crm/v3/objects/contacts?limit=1&after=7&properties=email", body: { results: [contact("2")] } },
      {
        line: "GET /crm/v3/objects/contacts/404",
        status: 404,
        body: { status: "error", message: "not found", correlationId: "c", category: "OBJECT_NOT_FOUND" },
      },
      { line: "GET /account-info/v3/details", body: { portalId: 42 } },
    ]);
    expect(printed).toEqual({
      written: "1",
      read: ["1", "2"],
      raw: 42,
      refused: ["ApiException", 404, "OBJECT_NOT_FOUND"],
    });
  });

  it("@notionhq/client", async () => {
    const found = (id: string, next_cursor: string | null) => ({
      object: "list",
      results: [{ object: "page", id }],
      next_cursor,
      has_more: next_cursor !== null,
    });
    const printed = await played("notion", [
      {
        line: "POST /v1/pages",
        sent: {
          parent: { page_id: "p1" },
          properties: { title: { title: [{ text: { content: "Tea & ü" } }] } },
        },
        body: { object: "page", id: "p2" },
      },
      { line: "POST /v1/search", sent: { query: "tea", page_size: 1 }, body: found("p2", "c2") },
      { line: "POST /v1/search", sent: { query: "tea", page_size: 1, start_cursor: "c2" }, body: found("p3", null) },
      {
        line: "POST /v1/file_uploads/f1/send",
        sent: expect.stringMatching(/name="file"; filename="tea.txt"\r\nContent-Type: text\/plain\r\n\r\ngreen\r\n/),
        body: { object: "file_upload", id: "f1", status: "uploaded" },
      },
      {
        line: "GET /v1/pages/missing",
        status: 404,
        body: { object: "error", status: 404, code: "object_not_found", message: "Could not find page." },
      },
    ]);
    expect(printed).toEqual({
      written: "p2",
      read: ["p2", "p3"],
      uploaded: "uploaded",
      refused: [true, 404, "object_not_found"],
    });
  });

  it("@linear/sdk", async () => {
    const line = "POST /graphql";
    const asks = (operation: string, variables: unknown) =>
      expect.objectContaining({ query: expect.stringContaining(operation), variables });
    const issues = (title: string, hasNextPage: boolean) => ({
      data: {
        issues: {
          nodes: [{ id: title, title, reactions: [], sharedAccess: { sharedWithUsers: [] } }],
          pageInfo: { hasNextPage, endCursor: "c1" },
        },
      },
    });
    const printed = await played("linear", [
      {
        line,
        sent: asks("mutation createIssue", { input: { teamId: "t1", title: "Tea & ü" } }),
        body: { data: { issueCreate: { success: true, lastSyncId: 1, issue: { id: "i1" } } } },
      },
      { line, sent: asks("query issues", { first: 1 }), body: issues("Tea", true) },
      { line, sent: asks("query issues", { first: 1, after: "c1" }), body: issues("Cake", false) },
      {
        line,
        sent: asks("query issue", { id: "missing" }),
        body: {
          data: null,
          errors: [{ message: "Entity not found: Issue", extensions: { type: "invalid input", code: "INPUT_ERROR" } }],
        },
      },
    ]);
    expect(printed).toEqual({
      written: [true, "i1"],
      read: ["Tea", "Cake"],
      refused: [true, "InvalidInput", "Entity not found: Issue"],
    });
  });

  it("@microsoft/microsoft-graph-client", async () => {
    const printed = await played("microsoft-graph", [
      { line: "POST /v1.0/me/messages", sent: { subject: "Tea & ü" }, status: 201, body: { id: "m1", isDraft: true } },
      {
        line: "GET /v1.0/me/messages?$select=subject&$top=1",
        body: {
          value: [{ subject: "one" }],
          "@odata.nextLink": "https://graph.microsoft.com/v1.0/me/messages?$select=subject&$top=1&$skip=1",
        },
      },
      { line: "GET /v1.0/me/messages?$select=subject&$top=1&$skip=1", body: { value: [{ subject: "two" }] } },
      {
        line: "GET /v1.0/me/messages/missing",
        status: 404,
        body: { error: { code: "ErrorItemNotFound", message: "The specified object was not found in the store." } },
      },
    ]);
    expect(printed).toEqual({ written: "m1", read: ["one", "two"], refused: [true, 404, "ErrorItemNotFound"] });
  });

  it("jira.js", async () => {
    const search = "GET /rest/api/3/search/jql?jql=project+%3D+TEA+ORDER+BY+created&";
    const printed = await played("jira", [
      {
        line: "POST /rest/api/3/issue",
        sent: { fields: { project: { key: "TEA" }, issuetype: { name: "Task" }, summary: "Tea & ü" } },
        status: 201,
        body: { id: "1", key: "TEA-1" },
      },
      { line: `${search}maxResults=1`, body: { issues: [{ key: "TEA-1" }], nextPageToken: "n2", isLast: false } },
      { line: `${search}nextPageToken=n2&maxResults=1`, body: { issues: [{ key: "TEA-2" }], isLast: true } },
      {
        line: "POST /rest/api/3/issue/TEA-1/attachments",
        sent: expect.stringMatching(/name="file"; filename="tea.txt"\r\n[\s\S]*\r\n\r\ngreen\r\n/),
        body: [{ id: "9", filename: "tea.txt" }],
      },
      {
        line: "GET /rest/api/3/issue/TEA-404",
        status: 404,
        body: { errorMessages: ["Issue does not exist or you do not have permission to see it."], errors: {} },
      },
    ]);
    expect(printed).toEqual({
      written: "TEA-1",
      read: ["TEA-1", "TEA-2"],
      uploaded: "tea.txt",
      refused: ["HttpException", 404],
    });
  });

  it("jsforce", async () => {
    const page = (Id: string, nextRecordsUrl?: string) => ({
      totalSize: 2,
      done: nextRecordsUrl === undefined,
      nextRecordsUrl,
      records: [{ attributes: { type: "Account" }, Id }],
    });
    const data = "/services/data/v67.0";
    const printed = await played("salesforce", [
      {
        line: `POST ${data}/sobjects/Account`,
        sent: { Name: "Tea & ü" },
        status: 201,
        body: { id: "001A", success: true, errors: [] },
      },
      { line: `GET ${data}/query?q=SELECT%20Id%20FROM%20Account`, body: page("001A", `${data}/query/01g-1`) },
      { line: `GET ${data}/query/01g-1`, body: page("001B") },
      {
        line: `GET ${data}/sobjects/Account/missing`,
        status: 404,
        body: [{ errorCode: "NOT_FOUND", message: "The requested resource does not exist" }],
      },
    ]);
    expect(printed).toEqual({ written: "001A", read: ["001A", "001B"], refused: ["NOT_FOUND", "NOT_FOUND"] });
  });

  it("node-zendesk", async () => {
    const uploaded = { upload: { token: "t1", attachment: { file_name: "tea.txt" } } };
    const list = "/api/v2/tickets.json?page%5Bsize%5D=100";
    const printed = await played("zendesk", [
      {
        line: "POST /api/v2/tickets.json",
        sent: { ticket: { subject: "Tea", comment: { body: "ü" } } },
        status: 201,
        body: { ticket: { id: 1, subject: "Tea" } },
      },
      {
        line: `GET ${list}`,
        body: {
          tickets: [{ id: 1 }],
          meta: { has_more: true, after_cursor: "c2" },
          links: { next: `https://acme.zendesk.com${list}&page%5Bafter%5D=c2` },
        },
      },
      {
        line: `GET ${list}&page%5Bafter%5D=c2`,
        body: { tickets: [{ id: 2 }], meta: { has_more: false }, links: { next: null } },
      },
      {
        line: "POST /api/v2/uploads.json?filename=tea.txt&binary=true",
        sent: "green",
        status: 201,
        body: uploaded,
      },
      {
        line: "GET /api/v2/tickets/404.json",
        status: 404,
        body: { error: "RecordNotFound", description: "Not found" },
      },
    ]);
    expect(printed).toEqual({
      written: 1,
      read: [1, 2],
      uploaded,
      refused: "Request processing failed: Zendesk Error (404): Item not found",
    });
  });

  it("airtable", async () => {
    const record = (id: string, Name: string) => ({ id, createdTime: "2026-01-01T00:00:00.000Z", fields: { Name } });
    const list = "GET /v0/app1/Teas?pageSize=1&sort%5B0%5D%5Bfield%5D=Name";
    const printed = await played("airtable", [
      {
        line: "POST /v0/app1/Teas/?",
        sent: { records: [{ fields: { Name: "Sencha & ü" } }] },
        body: { records: [record("rec1", "Sencha & ü")] },
      },
      { line: list, body: { records: [record("rec1", "Sencha")], offset: "itr1/rec1" } },
      { line: `${list}&offset=itr1%2Frec1`, body: { records: [record("rec2", "Assam")] } },
      { line: "GET /v0/app1/Teas/rec404?", status: 404, body: { error: "NOT_FOUND" } },
    ]);
    expect(printed).toEqual({ written: "rec1", read: ["Sencha", "Assam"], refused: [true, 404, "NOT_FOUND"] });
  });

  it("asana", async () => {
    const printed = await played("asana", [
      {
        line: "POST /api/1.0/tasks",
        sent: { data: { name: "Tea & ü", workspace: "1" } },
        status: 201,
        body: { data: { gid: "11", name: "Tea & ü" } },
      },
      {
        line: "GET /api/1.0/tasks?project=7&limit=1",
        body: {
          data: [{ gid: "11" }],
          next_page: { offset: "o2", path: "/tasks?offset=o2", uri: "https://app.asana.com/api/1.0/tasks?offset=o2" },
        },
      },
      { line: "GET /api/1.0/tasks?project=7&limit=1&offset=o2", body: { data: [{ gid: "12" }], next_page: null } },
      {
        line: "GET /api/1.0/tasks/404",
        status: 404,
        body: { errors: [{ message: "task: Unknown object: 404", help: "…" }] },
      },
    ]);
    expect(printed).toEqual({ written: "11", read: ["11", "12"], refused: [404, "task: Unknown object: 404"] });
  });

  it("@shopify/admin-api-client", async () => {
    const api = "/admin/api/2026-10";
    const printed = await played(
      "shopify",
      [
        {
          line: `POST ${api}/graphql.json`,
          sent: { query: expect.stringContaining("productCreate"), variables: { title: "Tea & ü" } },
          body: { data: { productCreate: { product: { id: "gid://shopify/Product/1" } } } },
        },
        {
          line: `GET ${api}/products.json?limit=1`,
          headers: { link: `<https://acme.myshopify.com${api}/products.json?limit=1&page_info=p2>; rel="next"` },
          body: { products: [{ id: 1 }] },
        },
        { line: `GET ${api}/products.json?limit=1&page_info=p2`, body: { products: [{ id: 2 }] } },
        { line: `GET ${api}/products/404.json`, status: 404, body: { errors: "Not Found" } },
      ],
      { header: "x-shopify-access-token" },
    );
    expect(printed).toEqual({ written: "gid://shopify/Product/1", read: [1, 2], refused: [404, "Not Found"] });
  });
});
