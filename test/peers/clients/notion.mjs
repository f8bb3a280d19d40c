// Creates a page, reads the results of two pages, and uploads a file.
import { APIResponseError, Client, iteratePaginatedAPI, LogLevel } from "@notionhq/client";

const { ADDRESS, KEY } = process.env;
const notion = new Client({ auth: KEY, baseUrl: ADDRESS, logLevel: LogLevel.ERROR });

const made = await notion.pages.create({
  parent: { page_id: "p1" },
  properties: { title: { title: [{ text: { content: "Tea & ü" } }] } },
});
const read = [];
for await (const { id } of iteratePaginatedAPI(notion.search, { query: "tea", page_size: 1 })) read.push(id);
const sent = await notion.fileUploads.send({
  file_upload_id: "f1",
  file: { filename: "tea.txt", data: new Blob(["green"], { type: "text/plain" }) },
});
const refusal = await notion.pages.retrieve({ page_id: "missing" }).catch((error) => error);

console.log(
  JSON.stringify({
    written: made.id,
    read,
    uploaded: sent.status,
    refused: [refusal instanceof APIResponseError, refusal.status, refusal.code],
  }),
);
