// Creates a contact, and reads those of two pages.
import { Client } from "@hubspot/api-client";

const { ADDRESS, KEY } = process.env;
const client = new Client({ accessToken: KEY, basePath: ADDRESS });
const { basicApi } = client.crm.contacts;

const made = await basicApi.create({ properties: { email: "ada@example.com" }, associations: [] });
const first = await basicApi.getPage(1, undefined, ["email"]);
const second = await basicApi.getPage(1, first.paging.next.after, ["email"]);
const refusal = await basicApi.getById("404").catch((error) => error);
const raw = await client.apiRequest({ path: "/account-info/v3/details" });

console.log(
  JSON.stringify({
    written: made.id,
    read: [...first.results, ...second.results].map(({ id }) => id),
    raw: (await raw.json()).portalId,
    refused: [refusal.constructor.name, refusal.code, refusal.body.category],
  }),
);
