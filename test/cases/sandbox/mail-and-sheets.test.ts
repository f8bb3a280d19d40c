import { expect, it } from "vitest";
import { type Answered, bearer, started } from "./started.ts";

async function withToken(scopes: string[]) {
  const sandbox = await started();
  const headers = bearer(sandbox.grant({ scopes }).access_token);
  const ask = async (method: string, path: string, body?: unknown): Promise<Pick<Answered, "status" | "body">> => {
    const response = await sandbox.send(method, path, { headers, ...(body === undefined ? {} : { body }) });
    return { status: response.status, body: await response.json() };
  };
  return { ...sandbox, ask };
}

it("lists, finds and reads mail", async () => {
  const { ask } = await withToken(["gmail.readonly"]);
  const first = await ask("GET", "/gmail/v1/users/me/messages?maxResults=5");
  expect(first.body.messages).toHaveLength(5);
  const second = await ask("GET", `/gmail/v1/users/me/messages?maxResults=10&pageToken=${first.body.nextPageToken}`);
  expect(second.body.messages).toHaveLength(7);
  expect(second.body.nextPageToken).toBeUndefined();
  const found = await ask("GET", "/gmail/v1/users/me/messages?q=Note%207");
  expect(found.body.messages).toEqual([{ id: "mail-7", threadId: "mail-7" }]);
  const { body } = await ask("GET", "/gmail/v1/users/ada@example.com/messages/mail-7");
  expect(body.payload.headers).toContainEqual({ name: "Subject", value: "Note 7" });
  expect(Buffer.from(body.payload.body.data, "base64url").toString()).toBe("Message 7: the engine runs.\r\n");
  expect((await ask("GET", "/gmail/v1/users/me/profile")).body).toMatchObject({
    emailAddress: "ada@example.com",
    messagesTotal: 12,
  });
  expect((await ask("GET", "/gmail/v1/users/me/messages/none")).status).toBe(404);
  expect((await ask("GET", "/gmail/v1/users/bob@example.com/messages")).status).toBe(403);
  expect((await ask("POST", "/gmail/v1/users/me/messages/send", { raw: "eA" })).status).toBe(403);
});

it("sends mail that is found again, and goes nowhere", async () => {
  const { ask } = await withToken(["gmail.modify"]);
  const raw = Buffer.from("To: bob@example.com\r\nSubject: A folded\r\n subject\r\n\r\nHello ☃").toString("base64url");
  const { body } = await ask("POST", "/gmail/v1/users/me/messages/send", { raw });
  expect(body.labelIds).toEqual(["SENT"]);
  const sent = await ask("GET", "/gmail/v1/users/me/messages?labelIds=SENT");
  expect(sent.body.messages).toEqual([{ id: body.id, threadId: body.threadId }]);
  const back = await ask("GET", `/gmail/v1/users/me/messages/${body.id}?format=raw`);
  expect(back.body.raw).toBe(raw);
  const full = await ask("GET", `/gmail/v1/users/me/messages/${body.id}`);
  expect(full.body).toMatchObject({ snippet: "Hello ☃" });
  expect((await ask("POST", "/gmail/v1/users/me/messages/send", {})).status).toBe(400);
});

it("reads and writes ranges of a spreadsheet", async () => {
  const { ask } = await withToken(["spreadsheets"]);
  const values = async (id: string, range: string) =>
    (await ask("GET", `/v4/spreadsheets/${id}/values/${encodeURIComponent(range)}`)).body;
  expect(await values("engines", "Sheet1!A1:B2")).toEqual({
    range: "Sheet1!A1:B2",
    majorDimension: "ROWS",
    values: [
      ["engine", "year"],
      ["Difference Engine", 1822],
    ],
  });
  const made = await ask("POST", "/v4/spreadsheets", { properties: { title: "Mine" } });
  const id = made.body.spreadsheetId;
  const put = (range: string, rows: unknown) =>
    ask("PUT", `/v4/spreadsheets/${id}/values/${range}?valueInputOption=RAW`, { values: rows });
  expect((await put("B2:C3", [[1, "x"], [true]])).body).toEqual({
    spreadsheetId: id,
    updatedRange: "Sheet1!B2:C3",
    updatedRows: 2,
    updatedColumns: 2,
    updatedCells: 3,
  });
  expect((await values(id, "A1:C3")).values).toEqual([[], ["", 1, "x"], ["", true]]);
  expect((await put("B2", [[null]])).status).toBe(200);
  expect((await values(id, "B2")).values).toEqual([[1]]);
  const appended = await ask("POST", `/v4/spreadsheets/${id}/values/Sheet1:append?valueInputOption=USER_ENTERED`, {
    values: [["last"]],
  });
  expect(appended.body.updates.updatedRange).toBe("Sheet1!A4:A4");
  expect((await values(id, "Sheet1")).values).toHaveLength(4);
  expect((await values(id, "AA1")).values).toBeUndefined();
});

it.each([
  ["PUT", "values/A1", { values: [[1]] }, 400],
  ["PUT", "values/A1?valueInputOption=RAW", { values: [[{}]] }, 400],
  ["PUT", "values/A10000?valueInputOption=RAW", { values: [[1], [2]] }, 400],
  ["PUT", "values/Other!A1?valueInputOption=RAW", { values: [[1]] }, 400],
  ["GET", "values/A0", undefined, 400],
  ["GET", "values/B2:A1", undefined, 400],
  ["GET", "values/1A", undefined, 400],
  ["POST", "values/A1", { values: [[1]] }, 404],
])("refuses %s %s of a spreadsheet", async (method, path, body, status) => {
  const { ask } = await withToken(["spreadsheets"]);
  expect((await ask(method, `/v4/spreadsheets/engines/${path}`, body)).status).toBe(status);
});

it("keeps spreadsheets to their owner, and reading apart from writing", async () => {
  const sandbox = await started();
  const ada = bearer(sandbox.grant({ scopes: ["spreadsheets"] }).access_token);
  const bob = bearer(sandbox.grant({ user: "bob@example.com", scopes: ["drive.readonly"] }).access_token);
  const made = await sandbox.send("POST", "/v4/spreadsheets", { headers: ada, body: {} });
  const { spreadsheetId } = (await made.json()) as { spreadsheetId: string };
  expect((await sandbox.get(`/v4/spreadsheets/${spreadsheetId}`, ada)).status).toBe(200);
  expect((await sandbox.get(`/v4/spreadsheets/${spreadsheetId}`, bob)).status).toBe(404);
  expect((await sandbox.get("/v4/spreadsheets/engines", bob)).status).toBe(200);
  expect((await sandbox.send("POST", "/v4/spreadsheets", { headers: bob, body: {} })).status).toBe(403);
});
